import type { MaybePromise } from '../util/async.js';
import { Unavailable } from '../domain/refusal.js';

/** The store cannot be used as it is; an operator has to fix it. */
export class StoreUnusable extends Error {
  readonly code = 'STORE_UNUSABLE';
}

/** The message of {@link StoreUnusable} for a store with an unfinished restore or copy. */
export const UNFINISHED_RESTORE =
  'the store is incomplete, because a restore or copy into it was interrupted; run "latchkey store restore" or "latchkey store copy" again';

/** The store cannot answer now. */
export class StoreUnavailable extends Unavailable {
  constructor(
    message: string,
    options?: ErrorOptions,
    refusal: 'store_unavailable' | 'outcome_unknown' = 'store_unavailable',
  ) {
    super({ refusal }, message, options);
    this.name = 'StoreUnavailable';
  }
}

/**
 * A change was sent, but it could not be confirmed in time whether it was made. It may or may not
 * have been applied, and the response to the caller says so.
 */
export class OutcomeUnknown extends StoreUnavailable {
  constructor(reason: string, options?: ErrorOptions) {
    super(`the change is not confirmed; it may have been applied (${reason})`, options, 'outcome_unknown');
    this.name = 'OutcomeUnknown';
  }
}

/** A record is damaged, or was written by a newer Latchkey. It is never treated as missing. */
export class RecordUnreadable extends StoreUnavailable {
  /** Id of the record; undefined if it is unknown. */
  readonly id: string | undefined;

  constructor(message: string, options: ErrorOptions & { readonly id?: string } = {}) {
    super(message, options);
    this.id = options.id;
  }
}

/** A record is damaged. */
export class RecordDamaged extends RecordUnreadable {}

/**
 * Passes over a damaged record, which every process refuses.
 *
 * @throws any other error: the Latchkey that wrote a newer record accepts it
 */
export function passDamaged(error: RecordUnreadable): void {
  if (!(error instanceof RecordDamaged)) throw error;
}

/** Some records of a list cannot be read. A caller that only shows the list may show the others. */
class ListIncomplete extends RecordUnreadable {
  readonly readable: readonly unknown[];
  readonly unreadable: readonly RecordUnreadable[];

  constructor(readable: readonly unknown[], unreadable: readonly [RecordUnreadable, ...RecordUnreadable[]]) {
    const [first, ...others] = unreadable;
    const more = others.length === 0 ? '' : `, and ${others.length} more cannot be read`;
    super(first.message + more, { cause: first });
    this.readable = readable;
    this.unreadable = unreadable;
  }
}

/** Reads the records of a list to its end, also after one that cannot be read. */
export class ListReader<T> {
  readonly #readable: T[] = [];
  readonly #unreadable: RecordUnreadable[] = [];

  /** Adds a record, unless it does not exist. */
  add(read: () => T | undefined): void {
    try {
      const record = read();
      if (record !== undefined) this.#readable.push(record);
    } catch (error) {
      if (!(error instanceof RecordUnreadable)) throw error;
      this.fail(error);
    }
  }

  /** Adds a record that cannot be read. */
  fail(error: RecordUnreadable): void {
    this.#unreadable.push(error);
  }

  /** Adds a list. */
  async addAll(list: () => MaybePromise<T[]>): Promise<void> {
    this.#readable.push(...(await readableOf(list, (error) => this.#unreadable.push(error))));
  }

  /** Returns the records. @throws ListIncomplete */
  end(): T[] {
    const [first, ...others] = this.#unreadable;
    if (first !== undefined) throw new ListIncomplete(this.#readable, [first, ...others]);
    return this.#readable;
  }
}

/**
 * Returns a list without the records that cannot be read. Only for showing it: what is decided by a
 * list needs all of it, except what every process refuses ({@link passDamaged}).
 */
export async function readableOf<T>(
  list: () => MaybePromise<T[]>,
  onUnreadable: (error: RecordUnreadable) => void,
): Promise<T[]> {
  try {
    return await list();
  } catch (error) {
    if (!(error instanceof ListIncomplete)) throw error;
    error.unreadable.forEach(onUnreadable);
    return [...error.readable] as T[];
  }
}

/**
 * Returns what was read; undefined if the record cannot be read. For work on many records, which one
 * unreadable record must not prevent.
 */
export function unlessUnreadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof RecordUnreadable) return undefined;
    throw error;
  }
}

/** Does some work, or leaves it undone if a record that it needs cannot be read. */
export async function skipUnreadable(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof RecordUnreadable)) throw error;
  }
}

/** Whether a record can be read, or does not exist. */
export function canRead(read: () => unknown): boolean {
  return unlessUnreadable(() => [read()]) !== undefined;
}
