import { Unavailable } from '../domain/refusal.js';

/** The store cannot be used as it is; an operator has to fix it. */
export class StoreUnusable extends Error {
  readonly code = 'STORE_UNUSABLE';
}

export const UNFINISHED_RESTORE =
  'the store is incomplete, because a restore or copy into it was interrupted; run "latchkey store restore" or "latchkey store copy" again';

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

/** It could not be confirmed in time whether a change was made; the response says so. */
export class OutcomeUnknown extends StoreUnavailable {
  constructor(reason: string, options?: ErrorOptions) {
    super(`the change is not confirmed; it may have been applied (${reason})`, options, 'outcome_unknown');
    this.name = 'OutcomeUnknown';
  }
}

/** A record is damaged. It is never treated as missing. */
export class RecordUnreadable extends StoreUnavailable {}

/** The kinds of damaged records that `latchkey store remove` removes. */
export const REMOVABLE = [
  'customer',
  'service',
  'user',
  'token',
  'session',
  'webhook',
  'dead_letter',
] as const;
export type RemovableKind = (typeof REMOVABLE)[number];

/** A record was written by a newer Latchkey. It is neither treated as missing nor as damaged. */
export class RecordNewer extends StoreUnavailable {}

export function unlessDamaged<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    return passOverDamaged(error);
  }
}

/** Throws any other error again. */
export function passOverDamaged(error: unknown): undefined {
  if (!(error instanceof RecordUnreadable)) throw error;
}
