import { type EpochMs, parseTime } from '../domain/time.js';
import { membersOf, numberedLines } from './access-log.js';
import { CommandFailed } from './terminal/failure.js';

/** Ids of tokens and sessions that ended according to audit logs. */
export interface Ended {
  readonly tokens: ReadonlySet<string>;
  readonly sessions: ReadonlySet<string>;
  /** Earliest expiry of each rotated token, by token id. */
  readonly expiries: ReadonlyMap<string, EpochMs>;
  /** Ids of tokens that were suspended and not resumed since. */
  readonly suspended: ReadonlySet<string>;
  /** Number of logs whose last line is cut off. */
  readonly unreadable: number;
}

/** Events that end or limit a token or session. */
const ENDS: ReadonlySet<string> = new Set([
  'token.revoked',
  'token.rotated',
  'token.changed',
  'session.ended',
]);

/** The fields of an audit log entry that are read. */
interface Entry {
  readonly time?: unknown;
  readonly outcome?: unknown;
  readonly target?: {
    readonly token_id?: unknown;
    readonly session_id?: unknown;
    readonly expires_at?: unknown;
    readonly suspended?: unknown;
  } | null;
}

/**
 * Reads which tokens were revoked or suspended and which sessions ended.
 *
 * An entry with an unknown outcome counts, because the change may have happened. A server log with
 * audit entries among other lines is accepted. A line that cannot be read may report a revocation,
 * so only a last one that is cut off is accepted; it is counted.
 *
 * @param files logs; `-` is standard input
 * @param own the configured log, which has no entries before the first change; null if there is
 *   none
 * @throws CommandFailed when a file or one of its lines cannot be read, or has no audit entries
 */
export async function readEnded(files: Iterable<string>, own: string | null): Promise<Ended> {
  const trail = new Trail();
  for (const file of files) await readLog(file, trail, file === own);
  return trail;
}

async function readLog(file: string, trail: Trail, mayBeEmpty: boolean): Promise<void> {
  const name = file === '-' ? 'standard input' : file;
  let entries = 0;
  let isEmpty = true;
  for await (const { text, number, isLast } of unchanged(numberedLines(file))) {
    if (text.trim() === '') continue;
    isEmpty = false;
    const members = membersOf(text);
    if (members !== undefined) {
      const { event } = members;
      if (typeof event !== 'string') continue;
      entries += 1;
      if (!ENDS.has(event) || trail.note(event, members)) continue;
    }
    if (!isLast)
      throw new CommandFailed(
        `${name}:${number}: the line cannot be read, and may report a revocation; ${REMEDY}, or remove the line if it reports none; nothing was changed`,
      );
    trail.unreadable += 1;
  }
  if (entries === 0 && !(isEmpty && mayBeEmpty))
    throw new CommandFailed(`${name} has no audit entries; ${REMEDY}; nothing was changed`);
}

const REMEDY = 'pass the log as Latchkey wrote it';

/** Adds to the error of a log that cannot be read that nothing was changed. */
async function* unchanged<T>(lines: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* lines;
  } catch (error) {
    throw error instanceof CommandFailed ? new CommandFailed(`${error.message}; nothing was changed`) : error;
  }
}

class Trail implements Ended {
  readonly tokens = new Set<string>();
  readonly sessions = new Set<string>();
  readonly expiries = new Map<string, EpochMs>();
  readonly #suspensions = new Map<string, { readonly at: string; readonly suspended: boolean }>();
  unreadable = 0;

  get suspended(): Set<string> {
    return new Set([...this.#suspensions].filter(([, { suspended }]) => suspended).map(([id]) => id));
  }

  /** Records an entry. Returns false when the entry does not name what ended. */
  note(event: string, { time, outcome, target }: Entry): boolean {
    const { token_id: token, session_id: session, expires_at: expiry, suspended } = target ?? {};
    if (event === 'session.ended' && typeof session === 'string') this.sessions.add(session);
    else if (typeof token !== 'string') return false;
    else if (event === 'token.revoked') this.tokens.add(token);
    else if (event === 'token.rotated') return this.#noteExpiry(token, expiry);
    else if (event === 'token.changed') this.#noteChange(token, suspended, time, outcome);
    else return false;
    return true;
  }

  #noteExpiry(token: string, expiresAt: unknown): boolean {
    const at = parseTime(String(expiresAt));
    if (at === undefined) return false;
    this.expiries.set(token, Math.min(at, this.expiries.get(token) ?? Infinity));
    return true;
  }

  /** The latest entry of all logs wins. A token counts as resumed only when that is certain. */
  #noteChange(token: string, value: unknown, time: unknown, outcome: unknown): void {
    const suspended = value === 'true';
    if (!suspended && (value !== 'false' || outcome !== 'success')) return;
    const at = typeof time === 'string' ? time : '';
    const known = this.#suspensions.get(token);
    if (known === undefined || known.at < at || (known.at === at && suspended))
      this.#suspensions.set(token, { at, suspended });
  }
}
