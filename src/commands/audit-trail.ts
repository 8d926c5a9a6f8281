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
  /** Tokens that were suspended and not resumed since, by id. */
  readonly suspended: ReadonlySet<string>;
  /** Lines that tell of such an end and can't be read. */
  readonly unreadable: number;
}

const ENDS = /"event":"(token\.revoked|token\.rotated|token\.changed|session\.ended)"/;

/** An entry of an audit log, as far as it is looked at. */
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
 * Reads which tokens were revoked or suspended and which sessions ended, or may have: an entry whose outcome is unknown
 * counts. A server's log with audit entries among other lines does as well.
 *
 * @throws CommandFailed when a file can't be read
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

  /** Returns false when an entry does not say what ended. */
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

  /** The latest entry counts, of whichever log; a token is resumed only when that is certain. */
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
    return parseForeignJson(line) as Entry;
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
