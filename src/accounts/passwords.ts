import pLimit from 'p-limit';

/** Loaded at the first password: most commands never see one, and its native code takes a tenth of their time. */
const argon2 = async () => import('@node-rs/argon2');

/** OWASP's first choice for argon2id (the library's default algorithm): 46 MiB, one pass, one lane. */
const PARAMETERS = { memoryCost: 47_104, timeCost: 1, parallelism: 1 } as const;

/** Checks waiting for their turn beyond this are refused at once, so that a flood can't fill memory. */
const MAX_WAITING = 64;

/** Too many password checks wait already. */
export class PasswordsBusy extends Error {
  readonly code = 'PASSWORDS_BUSY';
}

/**
 * Hashes and checks passwords with argon2id, a few at a time.
 *
 * One check takes tens of milliseconds of a core and 46 MiB, so the cap is what keeps a flood of
 * logins from being felt by proxied traffic.
 */
export class Passwords {
  readonly #limit: ReturnType<typeof pLimit>;
  #decoy: string | Promise<string> | undefined;

  /** @param concurrency checks that may run at once in this process */
  constructor(concurrency: number) {
    this.#limit = pLimit(concurrency);
  }

  /** Makes the PHC string of a password. */
  async hash(password: string): Promise<string> {
    return this.#queue(() => hash(normalize(password)));
  }

  /**
   * Whether the password is the one behind the PHC string.
   *
   * Without a string (an unknown user, one who can't log in) the answer is no after the same work. The work is
   * done on the last real string seen, because its parameters, and so its time, are those of this store.
   * @throws PasswordsBusy when too many checks wait
   */
  async verify(phc: string | null, password: string): Promise<boolean> {
    if (phc !== null) this.#decoy = phc;
    // Kept as a promise from the first moment, or many at once would each make their own.
    const against = await (this.#decoy ??= hash('no password has this hash'));
    const right = await this.#queue(async () => {
      const { verify } = await argon2();
      return verify(against, normalize(password)).catch(() => false);
    });
    return right && phc !== null;
  }

  async #queue<T>(work: () => Promise<T>): Promise<T> {
    if (this.#limit.pendingCount >= MAX_WAITING) throw new PasswordsBusy();
    return this.#limit(work);
  }
}

async function hash(password: string): Promise<string> {
  return (await argon2()).hash(password, PARAMETERS);
}

/** Each way to type the same letters counts as the same password (NIST SP 800-63B 3.1.1.2). */
function normalize(password: string): string {
  return password.normalize('NFKC');
}
