import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { parseForeignJson } from '../domain/json.js';
import { type EpochMs, parseTime } from '../domain/time.js';
import { describeSystemError } from '../domain/system-error.js';
import { CommandFailed } from './terminal/failure.js';

/** What audit logs tell of credentials that ended, by the ids of tokens and sessions. */
export interface Ended {
  readonly tokens: ReadonlySet<string>;
  readonly sessions: ReadonlySet<string>;
  /** When tokens that were rotated expire, by id. */
  readonly expiries: ReadonlyMap<string, EpochMs>;
  /** Lines that tell of such an end and can't be read. */
  readonly unreadable: number;
}

const ENDS = /"event":"(token\.revoked|token\.rotated|session\.ended)"/;

/**
 * Reads which tokens were revoked and which sessions ended, or may have: an entry whose outcome is unknown counts. A server's
 * log with audit entries among other lines does as well.
 *
 * @throws CommandFailed when a file can't be read
 */
export async function readEnded(files: Iterable<string>): Promise<Ended> {
  const [tokens, sessions] = [new Set<string>(), new Set<string>()];
  const expiries = new Map<string, EpochMs>();
  let unreadable = 0;
  for (const file of files) {
    for await (const line of linesOf(file)) {
      const [, event] = ENDS.exec(line) ?? [];
      if (event === undefined) continue;
      const { token_id: token, session_id: session, expires_at: expiry } = targetOf(line);
      const at = event === 'token.rotated' ? parseTime(String(expiry)) : undefined;
      if (typeof token === 'string' && at !== undefined)
        expiries.set(token, Math.min(at, expiries.get(token) ?? Infinity));
      else if (event === 'token.rotated') unreadable += 1;
      else if (typeof token === 'string') tokens.add(token);
      else if (typeof session === 'string') sessions.add(session);
      else unreadable += 1;
    }
  }
  return { tokens, sessions, expiries, unreadable };
}

const NOTHING = { token_id: undefined, session_id: undefined, expires_at: undefined };

function targetOf(line: string): Readonly<Record<'token_id' | 'session_id' | 'expires_at', unknown>> {
  try {
    return { ...NOTHING, ...(parseForeignJson(line) as { target?: object }).target };
  } catch {
    return NOTHING;
  }
}

async function* linesOf(file: string): AsyncGenerator<string> {
  try {
    yield* createInterface({ input: createReadStream(file) });
  } catch (error) {
    throw new CommandFailed(`${file} cannot be read: ${describeSystemError(error)}; nothing was changed`);
  }
}
