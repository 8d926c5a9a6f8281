import { statSync } from 'node:fs';
import { counted } from '../domain/counted.js';
import { type LoggedRequest, logLines, readLogLine } from './access-log.js';
import { CommandFailed } from './terminal/failure.js';

/**
 * Maximum number of entries kept per request id. Ids that Latchkey generated occur in no more than
 * a few.
 */
const MAX_ENTRIES = 20;

/** Selects a request of a log: the one with an id, or the last one that used a token. */
export type Wanted = { readonly field: 'request_id' | 'token_id'; readonly id: string };

/** The log entries of one request. */
export interface LoggedEntries {
  /**
   * Distinct entries with its id, in log order. A search by token yields the latest entry alone.
   */
  readonly entries: readonly LoggedRequest[];
  /** The expired token that an audit entry of the request names; null if there is none. */
  readonly expiredTokenId: string | null;
}

/** Statistics about the log, for the error message when no entry is found. */
interface Reading {
  lines: number;
  requests: number;
  unreadable: number;
  first: string | undefined;
  last: string | undefined;
  /** Whether a line contains the id but cannot be parsed as an entry. */
  broken: boolean;
  /** Whether an audit entry contains the id. */
  audited: boolean;
}

/**
 * Finds the entries of a request in a log, which is read as a stream.
 *
 * @param file `-` is standard input
 * @throws CommandFailed when there is none; the message says what the log contains
 */
export async function findLoggedRequest(file: string, wanted: Wanted): Promise<LoggedEntries> {
  refuseFolder(file);
  const reading: Reading = {
    lines: 0,
    requests: 0,
    unreadable: 0,
    first: undefined,
    last: undefined,
    broken: false,
    audited: false,
  };
  const found = new Map<string, LoggedRequest>();
  let expiredTokenId: string | null = null;
  const { field, id } = wanted;
  const written = JSON.stringify(id);
  for await (const line of logLines(file)) {
    note(reading, line);
    if (!line.includes(written)) continue;
    const entry = readLogLine(line);
    if (entry === 'unreadable') reading.broken = true;
    else if (entry === 'other') {
      const audited = auditEntryOf(line, wanted);
      reading.audited ||= audited !== undefined;
      expiredTokenId ??= audited?.expiredTokenId ?? null;
    } else if (field === 'token_id' && tokenIdOf(entry) === id) {
      found.clear();
      found.set(line, entry);
    } else if (field === 'request_id' && entry.requestId === id && found.size < MAX_ENTRIES)
      found.set(line, entry);
  }
  if (found.size === 0) throw new CommandFailed(whyNone(file, wanted, reading));
  return { entries: [...found.values()], expiredTokenId };
}

function refuseFolder(file: string): void {
  if (file === '-' || statSync(file, { throwIfNoEntry: false })?.isDirectory() !== true) return;
  throw new CommandFailed(
    `--log: ${file} is a folder; pass a file in it, or "cat ${file}/* | latchkey explain ... --log -"`,
  );
}

/** Counts a line without parsing it: a log may hold millions of other lines. */
function note(reading: Reading, line: string): void {
  reading.lines += 1;
  if (!line.startsWith('{') || !line.trimEnd().endsWith('}')) reading.unreadable += 1;
  else if (line.includes('"msg":"request"')) {
    reading.requests += 1;
    reading.first ??= line;
    reading.last = line;
  }
}

function tokenIdOf({ caller }: LoggedRequest): string | null {
  return caller !== null && 'tokenId' in caller ? caller.tokenId : null;
}

function auditEntryOf(line: string, { field, id: wanted }: Wanted): { expiredTokenId: string | null } | undefined {
  const entry = JSON.parse(line) as { request_id?: unknown; event?: unknown; target?: { token_id?: unknown } };
  if (field !== 'request_id' || entry.request_id !== wanted || typeof entry.event !== 'string') return undefined;
  const id = entry.event === 'token.expired' ? entry.target?.token_id : null;
  return { expiredTokenId: typeof id === 'string' ? id : null };
} // prettier-ignore

function whyNone(file: string, { field, id }: Wanted, reading: Reading): string {
  const { lines, requests, unreadable } = reading;
  const name = file === '-' ? 'standard input' : file;
  const none = `${name} has no request entry with the ${field} ${id}`;
  if (reading.broken)
    return `${none}, but a line that contains it is not an entry of Latchkey's log; remove what your log collector added to the line`;
  const range = requests === 0 ? '' : ` from ${timeOf(reading.first)} to ${timeOf(reading.last)}`;
  const read = `${none}: ${counted(lines, 'line')}, ${counted(requests, 'request')}${range}`;
  if (reading.audited)
    return `${read}; there is an audit entry for it, so the request is in another log, or was not logged (log.requests, log.level)`;
  if (unreadable > 0) return `${read}, ${unreadable} of them not JSON; pass the log as Latchkey wrote it`;
  if (requests === 0)
    return `${read}; pass the standard output of latchkey serve, with log.requests: all or refused`;
  return `${read}; look in the logs of other times and sidecars (log.sample leaves out served requests)`;
}

function timeOf(line: string | undefined): string {
  const entry = line === undefined ? undefined : readLogLine(line);
  if (entry === undefined || typeof entry === 'string' || entry.time === null) return 'an unknown time';
  return new Date(entry.time).toISOString();
}
