import { Limiter, permitOf } from '../domain/limiter.js';
import { costOfHash, MAX_PASSWORD_COST } from '../domain/limits.js';
import { Unavailable } from '../domain/refusal.js';
import { reportYields } from '../observe/evictions.js';

/** Of argon2id: memory in KiB and passes, on one lane. */
export interface HashParameters {
  readonly memoryCost: number;
  readonly timeCost: number;
}

export interface Hasher {
  hash(password: string, parameters: HashParameters): Promise<string>;
  /** False if the PHC string is not valid. */
  verify(phc: string, password: string): Promise<boolean>;
}

export const loadHasher = async () => import('@node-rs/argon2');

/** For commands: most never see a password, so the native code is loaded for the first one. */
export const localHasher: Hasher = {
  hash: async (password, parameters) => {
    const { hash } = await loadHasher();
    return hash(password, { ...parameters, parallelism: 1 });
  },
  verify: async (phc, password) => {
    const { verify } = await loadHasher();
    return verify(phc, password).catch(() => false);
  },
};

/** OWASP's first recommendation for argon2id: 46 MiB, one pass, one lane. */
const PARAMETERS: HashParameters = { memoryCost: 47_104, timeCost: 1 };
const COST = PARAMETERS.memoryCost * PARAMETERS.timeCost;

/** In KiB; costlier decoy work uses more passes instead. */
const MAX_DECOY_MEMORY = 65_536;

/** Checks beyond either are refused, so that a flood cannot fill memory. */
const MAX_WAITING = 64;
const MAX_WAIT_MS = 10_000;

export function passwordsBusy(): Unavailable {
  const refusal = { refusal: 'overloaded', detail: 'Too many logins at once' } as const;
  return new Unavailable(refusal, 'too many logins are waiting');
}

/** Runs logins with limited concurrency. In a full queue, the network with the most logins gives way. */
export class LoginQueue {
  readonly #limiter: Limiter;

  constructor(size: number, maxWaiting = MAX_WAITING) {
    this.#limiter = new Limiter({ size, maxWaiting, timeout: MAX_WAIT_MS }, reportYields('login'));
  }

  get isIdle(): boolean {
    return this.#limiter.active === 0;
  }

  /** @throws Unavailable if it gave way, the queue is full, or the wait was too long; it did not run */
  async run<T>(network: string, work: () => Promise<T>): Promise<T> {
    const permit = await permitOf(this.#limiter, [`network ${network}`], passwordsBusy);
    try {
      return await work();
    } finally {
      permit.release();
    }
  }
}

/** One check takes tens of milliseconds of CPU time and 46 MiB, so their concurrency is limited. */
export class Passwords {
  readonly #hasher: Hasher;
  readonly queue: LoginQueue;

  constructor(hasher: Hasher, concurrency: number) {
    this.#hasher = hasher;
    this.queue = new LoginQueue(concurrency);
  }

  async hash(password: string): Promise<string> {
    return this.#hasher.hash(normalize(password), PARAMETERS);
  }

  /**
   * A negative result, even without a string, takes as much work as the costliest hash in the store: the
   * timing must not reveal which users exist.
   */
  async verify(phc: string | null, password: string, costliest: number): Promise<boolean> {
    const text = normalize(password);
    if (phc !== null && (await this.#hasher.verify(phc, text))) return true;
    const rest = Math.min(Math.max(costliest, COST), MAX_PASSWORD_COST) - costOfHash(phc);
    if (rest > COST / 100) await this.#hasher.hash(text, parametersOf(rest));
    return false;
  }

  isWeak(phc: string | null): phc is string {
    return phc !== null && costOfHash(phc) < COST;
  }
}

function parametersOf(cost: number): HashParameters {
  const timeCost = Math.max(1, Math.ceil(cost / MAX_DECOY_MEMORY));
  return { memoryCost: Math.max(8, Math.round(cost / timeCost)), timeCost };
}

/** Makes all ways of typing the same letters the same password (NIST SP 800-63B 3.1.1.2). */
function normalize(password: string): string {
  return password.normalize('NFKC');
}
