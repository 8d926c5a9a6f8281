import { Unavailable } from '../domain/refusal.js';

/** In this process. */
const MAX_AT_ONCE = 2;
const MAX_WAITING = 20;
const MAX_WAIT_MS = 2_000;

interface UserTurns {
  begun: number;
  readonly waiting: Set<() => void>;
}

/**
 * Limits the lists of one user that are in memory: that of a customer with 100,000 tokens takes 30 MiB and
 * seconds of processor time. Others must still find the token to revoke.
 */
export class ListTurns {
  readonly #users = new Map<string, UserTurns>();
  readonly #maxWait: number;

  constructor(maxWait = MAX_WAIT_MS) {
    this.#maxWait = maxWait;
  }

  /** Returns the function that ends the turn. @throws Unavailable if the wait would be too long */
  async begin(userId: string): Promise<() => void> {
    let turns = this.#users.get(userId);
    if (turns === undefined) this.#users.set(userId, (turns = { begun: 0, waiting: new Set() }));
    if (turns.begun < MAX_AT_ONCE) turns.begun += 1;
    else await this.#wait(turns);
    const known = turns;
    let isOver = false;
    return () => {
      if (!isOver) this.#end(userId, known);
      isOver = true;
    };
  }

  /** For tests. */
  get size(): number {
    return this.#users.size;
  }

  async #wait({ waiting }: UserTurns): Promise<void> {
    if (waiting.size >= MAX_WAITING) throw busy();
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(begin);
        reject(busy());
      }, this.#maxWait);
      waiting.add(begin);
    });
  }

  #end(userId: string, turns: UserTurns): void {
    const [next] = turns.waiting;
    if (next !== undefined) {
      turns.waiting.delete(next);
      next();
      return;
    }
    turns.begun -= 1;
    if (turns.begun === 0) this.#users.delete(userId);
  }
}

export const listTurns = new ListTurns();

function busy(): Unavailable {
  const refusal = { refusal: 'overloaded', detail: 'Too many lists at once' } as const;
  return new Unavailable(refusal, 'too many lists of one user are in progress');
}
