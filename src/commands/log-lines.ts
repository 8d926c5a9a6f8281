import { createReadStream } from 'node:fs';
import { z } from 'zod';
import { isObject } from '../util/json.js';
import { describeSystemError } from '../util/system-error.js';
import { CommandFailed } from './terminal/output.js';

const LINE_FEED = 0x0a;

/**
 * Streams the lines of a file (`-`: standard input). Only a line feed ends a line: names may contain
 * any other separator. `isCut`: the file ends within the line, as after a crash.
 */
export async function* linesOf(file: string) {
  const parts: Buffer[] = [];
  let number = 0;
  try {
    const chunks: AsyncIterable<Buffer> = file === '-' ? process.stdin : createReadStream(file);
    for await (const chunk of chunks) {
      let from = 0;
      for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
        yield { bytes: Buffer.concat([...parts.splice(0), chunk.subarray(from, at)]), number: ++number, isCut: false };
        from = at + 1;
      }
      if (from < chunk.length) parts.push(chunk.subarray(from));
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    throw new CommandFailed(`${file} cannot be read: ${describeSystemError(error)}`);
  }
  if (parts.length > 0) yield { bytes: Buffer.concat(parts), number: number + 1, isCut: true };
} // prettier-ignore

const text = z.string().nullable().catch(null);

/** The log entry of one request. Fields that the line lacks are null. */
const entrySchema = z.object({
  request_id: z.string(),
  outcome: z.string(),
  time: text,
  method: text,
  /** As sent, without the query; it may be truncated or masked. */
  path: text,
  host: text,
  decision: z.enum(['allowed', 'refused']).nullable().catch(null),
  config_hash: text,
  user_id: text,
  customer_id: text,
  credential: z.enum(['token', 'legacy_key', 'session', 'jwt']).nullable().catch(null),
  token_id: text,
  issuer: text,
  subject: text,
});

export type LoggedRequest = z.infer<typeof entrySchema>;

/** Parses a log line; `other` stands for an entry that is not of a request. */
export function readLogLine(line: string): LoggedRequest | 'other' | 'unreadable' {
  const members = membersOf(line);
  if (typeof members?.['msg'] !== 'string') return 'unreadable';
  if (members['msg'] !== 'request') return 'other';
  return entrySchema.safeParse(members).data ?? 'unreadable';
}

/** The sender of a request. The log has no roles, scopes or services. */
export type LoggedCaller = LoggedRequest & {
  readonly user_id: string;
  readonly customer_id: string;
  readonly credential: NonNullable<LoggedRequest['credential']>;
};

export function hasCaller(request: LoggedRequest): request is LoggedCaller {
  return request.user_id !== null && request.customer_id !== null && request.credential !== null;
}

export function membersOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
