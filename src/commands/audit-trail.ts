import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { parseUntrustedJson } from '../domain/json.js';
import { type EpochMs, parseTime } from '../domain/time.js';
import { describeSystemError } from '../domain/system-error.js';
import { CommandFailed } from './terminal/failure.js';

/** Ids of tokens and sessions that ended according to audit logs. */
export interface Ended {
  readonly tokens: ReadonlySet<string>;
  readonly sessions: ReadonlySet<string>;
  /** Earliest expiry of each rotated token, by token id. */
  readonly expiries: ReadonlyMap<string, EpochMs>;
  /** Ids of tokens that were suspended and not resumed since. */
  readonly suspended: ReadonlySet<string>;
  /** Number of lines that report such an end but cannot be parsed. */
  readonly unreadable: number;
}

const ENDS = /"event":"(token\.revoked|token\.rotated|token\.changed|session\.ended)"/;

/** The fields of an audit log entry that are read. */
interface Entry {
  readonly time?: unknown;
  readonly outcome?: unknown;
  readonly target?: {
    readonly token_id?: unknown;
    readonly session_id?: unknown;
    readonly expires_at?: unknown;
    readonly suspended?: unknown;
  };
}

/**
 * Reads which tokens were revoked or suspended and which sessions ended.
 *
 * An entry with an unknown outcome counts, because the change may have happened. A server log with
 * audit entries among other lines is accepted.
 *
 * @throws CommandFailed when a file cannot be read
 */
export async function readEnded(files: Iterable<string>): Promise<Ended> {
  const trail = new Trail();
  for (const file of files) {
    for await (const line of linesOf(file)) {
      const [, event] = ENDS.exec(line) ?? [];
      if (event !== undefined && !trail.note(event, entryOf(line))) trail.unreadable += 1;
    }
  }
  return trail;
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
  note(event: string, { time, outcome, target = {} }: Entry): boolean {
    const { token_id: token, session_id: session } = target;
    if (event === 'session.ended' && typeof session === 'string') this.sessions.add(session);
    else if (typeof token !== 'string') return false;
    else if (event === 'token.revoked') this.tokens.add(token);
    else if (event === 'token.rotated') return this.#noteExpiry(token, target.expires_at);
    else if (event === 'token.changed') this.#noteChange(token, target.suspended, time, outcome);
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

function entryOf(line: string): Entry {
  try {
    return parseUntrustedJson(line) as Entry;
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
