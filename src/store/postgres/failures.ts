import { DatabaseError } from 'pg';
import { StoreUnavailable } from '../faults.js';

export const AT_STANDBY = 'the server is a standby';
const FORBIDDEN = 'the PostgreSQL user lacks a permission of those in docs/storage.md';
const EMPTY = 'the store is empty: start a server or run "latchkey apply" to begin one, or restore it';

/** Codes of a missing schema, table or function. */
const MISSING = ['3F000', '42P01', '42883'];
/** Codes of changes that met others in a way that one of them has to be repeated. */
const CONFLICTS = ['40001', '40P01'];
/** Code of an insertion of what is there: the mark of a change that was given up. */
const GIVEN_UP = '23505';

function codeOf(error: unknown): string | undefined {
  return error instanceof DatabaseError ? error.code : undefined;
}

/**
 * Whether the server refused a statement, which therefore changed nothing. If it ends the connection
 * (classes 08 and 57P), it may have made the change before.
 */
export function isRefused(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && !/^(?:08|57P)/.test(code);
}

/** Whether a refused change has to be decided again. */
export function isConflict(error: unknown): boolean {
  return CONFLICTS.includes(codeOf(error) ?? '');
}

/** Whether there is no such schema or table. */
export function isMissing(error: unknown): boolean {
  return MISSING.includes(codeOf(error) ?? '');
}

/** Whether a table has other columns. */
export function isForeign(error: unknown): boolean {
  return codeOf(error) === '42703';
}

/** Whether a connection is of no use any more: it was lost, unanswered, or is to a standby now. */
export function isLost(error: unknown): boolean {
  return !isRefused(error) || codeOf(error) === '25006';
}

/** The server did not answer in time. */
export class TimedOut extends Error {
  override readonly message = 'no response in time';
}

/** Converts an error into the one that a caller of the store gets. */
export function asUnavailable(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  if (isMissing(error)) return new StoreUnavailable(EMPTY, { cause: error });
  return new StoreUnavailable(`${kindOf(error)} (${reasonOf(error)})`, { cause: error });
}

/** The error of a store whose tables hold nothing, not even its mark. */
export function emptied(): StoreUnavailable {
  return new StoreUnavailable(EMPTY);
}

function kindOf(error: unknown): string {
  const code = codeOf(error);
  if (code === '42501') return FORBIDDEN;
  return code === GIVEN_UP ? 'the change was given up' : 'PostgreSQL is unavailable';
}

export function reasonOf(error: unknown): string {
  return codeOf(error) === '25006' ? AT_STANDBY : error instanceof Error ? error.message : String(error);
}
