import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { parseForeignJson } from '../domain/json.js';
import { describeSystemError } from '../domain/system-error.js';
import { CommandFailed } from './terminal/failure.js';

/** What audit logs tell of credentials that ended, by the ids of tokens and sessions. */
export interface Ended {
  readonly tokens: ReadonlySet<string>;
  readonly sessions: ReadonlySet<string>;
  /** Lines that tell of such an end and can't be read. */
  readonly unreadable: number;
}

const ENDS = /"event":"(token\.revoked|session\.ended)"/;

/**
 * Reads which tokens were revoked and which sessions ended, or may have: an entry whose outcome is unknown counts. A server's
 * log with audit entries among other lines does as well.
 *
 * @throws CommandFailed when a file can't be read
 */
export async function readEnded(files: Iterable<string>): Promise<Ended> {
  const [tokens, sessions] = [new Set<string>(), new Set<string>()];
  let unreadable = 0;
  for (const file of files) {
    for await (const line of linesOf(file)) {
      if (!ENDS.test(line)) continue;
      const { token_id: token, session_id: session } = targetOf(line);
      if (typeof token === 'string') tokens.add(token);
      else if (typeof session === 'string') sessions.add(session);
      else unreadable += 1;
    }
  }
  return { tokens, sessions, unreadable };
}

function targetOf(line: string): { readonly token_id?: unknown; readonly session_id?: unknown } {
  try {
    return (parseForeignJson(line) as { target?: object }).target ?? {};
  } catch {
    return {};
  }
}

async function* linesOf(file: string): AsyncGenerator<string> {
  try {
    yield* createInterface({ input: createReadStream(file) });
  } catch (error) {
    throw new CommandFailed(`${file} cannot be read: ${describeSystemError(error)}; nothing was changed`);
  }
}
