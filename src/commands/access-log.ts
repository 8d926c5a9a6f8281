import { createReadStream } from 'node:fs';
import { describeSystemError } from '../domain/system-error.js';
import type { EpochMs } from '../domain/time.js';
import { CommandFailed } from './terminal/failure.js';

/** Longest line that is read, in bytes. Entries are a few kilobytes; a file without line ends must not fill the memory. */
const MAX_LINE = 1024 * 1024;

/** Longest path and host of an entry (`pipeline/access-log`): one of this length may be the beginning of a longer one. */
const CUT = 512;

/** Who sent a request, as its log entry names them. Roles, scopes and services are not in the log. */
export type LoggedCaller = { readonly userId: string; readonly customerId: string } & (
  | { readonly credential: 'token' | 'legacy_key'; readonly tokenId: string }
  | { readonly credential: 'session'; readonly sessionId: string }
  | { readonly credential: 'jwt'; readonly issuer: string; readonly subject: string }
);

/** The entry of one request. What its line does not hold is null. */
export interface LoggedRequest {
  readonly requestId: string;
  /** When it ended. */
  readonly time: EpochMs | null;
  /** How long it took, in milliseconds. */
  readonly ms: number | null;
  readonly method: string | null;
  /** As it was sent, without its query. It may be cut or masked: see {@link whyNotReplayable}. */
  readonly path: string | null;
  /** Names of the parameters of the query; their values are never logged. */
  readonly query: readonly string[] | null;
  readonly host: string | null;
  readonly client: string | null;
  readonly status: number | null;
  readonly outcome: string;
  readonly route: string | null;
  readonly action: string | null;
  readonly decision: 'allowed' | 'refused' | null;
  readonly detail: string | null;
  readonly rule: string | null;
  /** The digest of the configuration that decided. */
  readonly configHash: string | null;
  /** null: nobody is known to have sent it. */
  readonly caller: LoggedCaller | null;
}

/** Reads a line of the log: the entry of a request, `other` for an entry of another kind, or `unreadable`. */
export function readLogLine(line: string): LoggedRequest | 'other' | 'unreadable' {
  const members = membersOf(line);
  if (members === undefined) return 'unreadable';
  if (typeof members['msg'] !== 'string') return 'unreadable';
  if (members['msg'] !== 'request') return 'other';
  const text = (name: string) => textOf(members[name]);
  const requestId = text('request_id');
  const outcome = text('outcome');
  if (requestId === null || outcome === null) return 'unreadable';
  const { status, ms } = members;
  const decision = text('decision');
  const query = text('query');
  const time = Date.parse(text('time') ?? '');
  return {
    requestId,
    time: Number.isNaN(time) ? null : time,
    ms: typeof ms === 'number' ? ms : null,
    method: text('method'),
    path: text('path'),
    query: query === null ? null : query.split('&'),
    host: text('host'),
    client: text('client'),
    status: typeof status === 'number' ? status : null,
    outcome,
    route: text('route'),
    action: text('action'),
    decision: decision === 'allowed' || decision === 'refused' ? decision : null,
    detail: text('detail'),
    rule: text('rule'),
    configHash: text('config_hash'),
    caller: callerOf(members),
  };
}

/** A request that can be put to a gate again, as far as its entry goes. */
export type ReplayableRequest = LoggedRequest & { readonly method: string; readonly path: string };

/** Whether an entry holds the method and the whole path of its request. */
export function isReplayable(request: LoggedRequest): request is ReplayableRequest {
  return whyNotReplayable(request) === undefined;
}

/** Why a request cannot be judged again from its entry; undefined when it can. */
export function whyNotReplayable({ method, path }: LoggedRequest): string | undefined {
  if (method === null) return 'its head could not be read, so nothing was decided';
  if (path === null) return 'the entry has no path (log.fields)';
  if (path.length >= CUT) return `the path is cut at ${CUT} characters`;
  if (/lk\*{38}/.test(path)) return 'the path holds a masked token';
  return undefined;
}

/**
 * The lines of a log file, or of standard input for `-`, one after another, without holding more than one of them. A line that is
 * too long is given as its beginning, which is no JSON.
 *
 * @param onBytes hears how many bytes were read so far
 * @throws CommandFailed when it cannot be read, or is compressed
 */
export async function* logLines(
  file: string,
  onBytes: (bytes: number) => void = () => undefined,
): AsyncGenerator<string> {
  const stream = file === '-' ? process.stdin : createReadStream(file, { highWaterMark: MAX_LINE });
  let rest = '';
  let isCut = false;
  let bytes = 0;
  const decoder = new TextDecoder();
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (bytes === 0) refuseCompressed(file, chunk);
      bytes += chunk.length;
      onBytes(bytes);
      const lines = decoder.decode(chunk, { stream: true }).split('\n');
      // What is left of a line that was cut is skipped.
      if (!isCut) rest += lines[0];
      if (lines.length > 1) {
        lines[0] = rest;
        rest = lines.pop() ?? '';
        yield* lines.filter((line) => line !== '');
      }
      isCut = rest.length > MAX_LINE;
      if (isCut) rest = rest.slice(0, MAX_LINE);
    }
  } catch (error) {
    if (error instanceof CommandFailed) throw error;
    throw new CommandFailed(`${file} cannot be read: ${describeSystemError(error)}`);
  }
  if (rest !== '') yield rest;
}

/** By the first bytes of gzip (RFC 1952 2.3.1). */
function refuseCompressed(file: string, start: Buffer): void {
  if (start[0] !== 0x1f || start[1] !== 0x8b) return;
  throw new CommandFailed(
    file === '-'
      ? 'standard input is compressed; put "gunzip -c |" in front'
      : `${file} is compressed; run "gunzip -c ${file} | latchkey ..." with - for the file`,
  );
}

function membersOf(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

function callerOf(members: Record<string, unknown>): LoggedCaller | null {
  const text = (name: string) => textOf(members[name]);
  const [userId, customerId] = [text('user_id'), text('customer_id')];
  if (userId === null || customerId === null) return null;
  const who = { userId, customerId };
  const credential = text('credential');
  switch (credential) {
    case 'token':
    case 'legacy_key':
      return { ...who, credential, tokenId: text('token_id') ?? '' };
    case 'session':
      return { ...who, credential, sessionId: text('session_id') ?? '' };
    case 'jwt':
      return { ...who, credential, issuer: text('issuer') ?? '', subject: text('subject') ?? '' };
    default:
      return null;
  }
}
