import pLimit from 'p-limit';
import { costOfHash, MAX_PASSWORD_COST } from '../domain/password-cost.js';
import { Unavailable } from '../domain/unavailable.js';
import type { Hasher, HashParameters } from './hasher.js';

/** OWASP's first choice for argon2id: 46 MiB, one pass, one lane. */
const PARAMETERS: HashParameters = { memoryCost: 47_104, timeCost: 1 };
const COST = PARAMETERS.memoryCost * PARAMETERS.timeCost;

/** Work that stands for no password takes no more memory than this, KiB, and more passes instead. */
const MAX_DECOY_MEMORY = 65_536;

/** Checks that wait for their turn beyond this many, or for longer, are refused: a flood can't fill memory. */
const MAX_WAITING = 64;
const MAX_WAIT_MS = 10_000;

/** Too many password checks wait already, or none can be made now. */
export function passwordsBusy(): Unavailable {
  const refusal = { refusal: 'overloaded', detail: 'Too many logins at once' } as const;
  return new Unavailable(refusal, 'too many passwords wait to be hashed');
}

/**
 * Hashes and checks passwords with argon2id, a few at a time.
 *
 * One check takes tens of milliseconds of a core and 46 MiB, so the cap is what keeps a flood of logins from being felt
 * by proxied traffic.
 */
export class Passwords {
  readonly #hasher: Hasher;
  readonly #limit: ReturnType<typeof pLimit>;

  /** @param concurrency checks that may run at once */
  constructor(hasher: Hasher, concurrency: number) {
    this.#hasher = hasher;
    this.#limit = pLimit(concurrency);
  }

  /**
   * Does what checks a password when its turn comes.
   *
   * @throws Unavailable when too many wait, or it waited too long; nothing was done then
   */
  async enqueue<T>(work: () => Promise<T>): Promise<T> {
    if (this.#limit.pendingCount >= MAX_WAITING) throw passwordsBusy();
    const askedAt = performance.now();
    return this.#limit(async () => {
      if (performance.now() - askedAt > MAX_WAIT_MS) throw passwordsBusy();
      return work();
    });
  }

  /** Makes the PHC string of a password. */
  async hash(password: string): Promise<string> {
    return this.#hasher.hash(normalize(password), PARAMETERS);
  }

  /**
   * Whether the password is the one behind the PHC string.
   *
   * Every no takes the work of the costliest hash in the store, whatever the string's own parameters are: without a string
   * (an unknown user, one who can't log in) as well. So the time tells nothing of who exists.
   *
   * @param costliest what the costliest hash in the store takes, as {@link costOfHash} gives it
   */
  async verify(phc: string | null, password: string, costliest: number): Promise<boolean> {
    const text = normalize(password);
    if (phc !== null && (await this.#hasher.verify(phc, text))) return true;
    const rest = Math.min(Math.max(costliest, COST), MAX_PASSWORD_COST) - costOfHash(phc);
    if (rest > COST / 100) await this.#hasher.hash(text, parametersOf(rest));
    return false;
  }

  /** Whether a hash takes less work to guess than one that is made now. */
  isWeak(phc: string | null): phc is string {
    return phc !== null && costOfHash(phc) < COST;
  }
}

/** Parameters that take a certain work. */
function parametersOf(cost: number): HashParameters {
  const timeCost = Math.max(1, Math.ceil(cost / MAX_DECOY_MEMORY));
  return { memoryCost: Math.max(8, Math.round(cost / timeCost)), timeCost };
}

/** Each way to type the same letters counts as the same password (NIST SP 800-63B 3.1.1.2). */
function normalize(password: string): string {
  return password.normalize('NFKC');
}
