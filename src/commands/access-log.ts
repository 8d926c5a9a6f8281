import type { EpochMs } from '../util/time.js';
import { linesOf } from './lines.js';
import { CommandFailed } from './terminal/output.js';

/** Maximum length of an entry's path and host; one of this length may be truncated. */
const CUT = 512;

/** The sender of a request as its log entry names it. The log has no roles, scopes or services. */
export type LoggedCaller = { readonly userId: string; readonly customerId: string } & (
  | { readonly credential: 'token' | 'legacy_key'; readonly tokenId: string }
  | { readonly credential: 'session' }
  | { readonly credential: 'jwt'; readonly issuer: string; readonly subject: string }
);

/** The log entry of one request. Fields that the line lacks are null. */
export interface LoggedRequest {
  readonly requestId: string;
  readonly time: EpochMs | null;
  readonly method: string | null;
  /** As sent, without the query. It may be truncated or masked: see {@link whyNotReplayable}. */
  readonly path: string | null;
  readonly host: string | null;
  readonly outcome: string;
  readonly decision: 'allowed' | 'refused' | null;
  readonly configHash: string | null;
  readonly caller: LoggedCaller | null;
}

/** Parses a log line; `other` stands for an entry that is not of a request. */
export function readLogLine(line: string): LoggedRequest | 'other' | 'unreadable' {
  const members = membersOf(line);
  if (members === undefined) return 'unreadable';
  if (typeof members['msg'] !== 'string') return 'unreadable';
  if (members['msg'] !== 'request') return 'other';
  const text = (name: string) => textOf(members[name]);
  const requestId = text('request_id');
  const outcome = text('outcome');
  if (requestId === null || outcome === null) return 'unreadable';
  const decision = text('decision');
  const time = Date.parse(text('time') ?? '');
  return {
    requestId,
    time: Number.isNaN(time) ? null : time,
    method: text('method'),
    path: text('path'),
    host: text('host'),
    outcome,
    decision: decision === 'allowed' || decision === 'refused' ? decision : null,
    configHash: text('config_hash'),
    caller: callerOf(members),
  };
}

export type ReplayableRequest = LoggedRequest & { readonly method: string; readonly path: string };

export function isReplayable(request: LoggedRequest): request is ReplayableRequest {
  return whyNotReplayable(request) === undefined;
}

/** Why a request cannot be decided again from its entry; undefined when it can. */
export function whyNotReplayable({ method, path }: LoggedRequest): string | undefined {
  if (method === null) return 'its head could not be read, so no decision was made';
  if (path === null) return 'the entry has no path (log.fields)';
  if (path.length >= CUT) return `the path is truncated to ${CUT} characters`;
  if (/lk\*{38}/.test(path)) return 'the path contains a masked token';
  return undefined;
}

/** Streams the lines of a log file as texts. */
export async function* logLines(file: string) {
  for await (const { bytes, ...line } of linesOf(file)) {
    if (line.number === 1) refuseCompressed(file, bytes);
    yield { ...line, text: bytes.toString() };
  }
}

/** Recognizes gzip by its first two bytes (RFC 1952 2.3.1). @throws CommandFailed */
function refuseCompressed(file: string, start: Buffer): void {
  if (start[0] !== 0x1f || start[1] !== 0x8b) return;
  throw new CommandFailed(
    file === '-'
      ? 'standard input is compressed; decompress it with "gunzip -c" first'
      : `${file} is compressed; run "gunzip -c ${file} | latchkey ..." with - for the file`,
  );
}

export function membersOf(line: string): Record<string, unknown> | undefined {
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
      return { ...who, credential };
    case 'jwt':
      return { ...who, credential, issuer: text('issuer') ?? '', subject: text('subject') ?? '' };
    default:
      return null;
  }
}
