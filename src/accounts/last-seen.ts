import type { Subject } from '../domain/credential.js';
import { maskTokens, ownCopy } from '../util/text.js';
import type { EpochMs } from '../util/time.js';
import type { SessionUse, TokenUse } from '../domain/token.js';
import type { UsageStore, Uses } from '../store/core/usage.js';

/** The idle timeout is accurate to within it. */
const SESSION_TOUCH_MS = 60_000;
const SHORTEST_INTERVAL_MS = 1_000;
/** Kept while they cannot be written; the oldest are dropped. */
const MAX_KEPT = 100_000;
/** Bytes that are stored of a User-Agent. */
const MAX_USER_AGENT = 512;
/** More than any IPv6 address with a zone needs. */
const MAX_ADDRESS = 64;
const NOTHING: Uses = { tokens: new Map(), sessions: new Map() };

/**
 * Writes the last uses of tokens and sessions in batches; a killed process loses those since the last one.
 */
export class LastSeen {
  readonly #usage: Pick<UsageStore, 'recordUses'>;
  readonly #idleTimeout: number;
  readonly #sessionStep: number;
  /** Whether uses wait so long that they must not keep the heads of their requests. */
  readonly #ownsTexts: boolean;
  readonly #timer: NodeJS.Timeout;
  #tokens = new Map<string, TokenUse>();
  #sessions = new Map<string, SessionUse>();
  #leaving: Uses = NOTHING;
  #writing: Promise<void> = Promise.resolve();

  /**
   * @param idleTimeout sessions are written at a tenth of it or sooner: to others, one is idle until it is
   * written
   */
  constructor(
    usage: Pick<UsageStore, 'recordUses'>,
    interval: number,
    idleTimeout: number,
    onError: (error: unknown) => void,
  ) {
    this.#usage = usage;
    this.#idleTimeout = idleTimeout;
    this.#ownsTexts = interval > SHORTEST_INTERVAL_MS;
    this.#sessionStep = Math.min(SESSION_TOUCH_MS, idleTimeout / 10);
    const sessionInterval = Math.min(interval, Math.max(SHORTEST_INTERVAL_MS, this.#sessionStep));
    let tokensDueAt = performance.now() + interval;
    const flush = () => {
      // A timer may fire slightly early.
      const isTokensDue = performance.now() >= tokensDueAt - 1;
      if (isTokensDue) tokensDueAt = performance.now() + interval;
      this.#flush(isTokensDue).catch(onError);
    };
    this.#timer = setInterval(flush, sessionInterval).unref();
  }

  note(subject: Subject, ip: string, userAgent: string | undefined, now: EpochMs): void {
    // A JWT has no record that could store its last use.
    if (subject.credential === 'jwt') return;
    if (subject.credential !== 'session') {
      this.#tokens.set(subject.token.id, this.#useOf(ip, userAgent, now));
    } else if (now - this.sessionSeenAt(subject.session) >= this.#sessionStep) {
      const idleEndsAt = now + this.#idleTimeout;
      this.#sessions.set(subject.session.digest, { ...this.#useOf(ip, userAgent, now), idleEndsAt });
    }
  }

  /** Returns a last use that is not written yet. */
  pending(tokenId: string): TokenUse | undefined {
    return this.#tokens.get(tokenId) ?? this.#leaving.tokens.get(tokenId);
  }

  /** Includes activity that is not written yet. */
  sessionSeenAt(session: { digest: string; lastSeenAt: EpochMs }): EpochMs {
    const use = this.#sessions.get(session.digest) ?? this.#leaving.sessions.get(session.digest);
    return Math.max(session.lastSeenAt, use?.at ?? 0);
  }

  /** On failure the uses are kept. */
  async flush(): Promise<void> {
    return this.#flush(true);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  #useOf(ip: string, userAgent: string | undefined, at: EpochMs): TokenUse {
    const use = { at, ...recordedClient(ip, userAgent) };
    return this.#ownsTexts ? withOwnTexts(use) : use;
  }

  async #flush(withTokens: boolean): Promise<void> {
    this.#writing = this.#writing.catch(() => undefined).then(() => this.#write(withTokens));
    return this.#writing;
  }

  async #write(withTokens: boolean): Promise<void> {
    const uses = { tokens: withTokens ? this.#tokens : NOTHING.tokens, sessions: this.#sessions };
    if (uses.tokens.size === 0 && uses.sessions.size === 0) return;
    this.#leaving = uses;
    if (withTokens) this.#tokens = new Map();
    this.#sessions = new Map();
    try {
      await this.#usage.recordUses(uses);
    } catch (error) {
      this.#tokens = newest([...uses.tokens, ...this.#tokens]);
      this.#sessions = newest([...uses.sessions, ...this.#sessions]);
      throw error;
    } finally {
      this.#leaving = NOTHING;
    }
  }
}

function newest<Use extends TokenUse>(uses: readonly (readonly [string, Use])[]): Map<string, Use> {
  return new Map(uses.slice(-MAX_KEPT).map(([id, use]) => [id, withOwnTexts(use)]));
}

/** Many uses may be kept, and a substring would keep the whole head of its request alive. */
function withOwnTexts<Use extends TokenUse>(use: Use): Use {
  const { ip, userAgent } = use;
  return { ...use, ip: ownCopy(ip), userAgent: userAgent === null ? null : ownCopy(userAgent) };
}

/** Returns a client as a record may hold it: truncated, with an access token in its User-Agent masked. */
export function recordedClient(ip: string, userAgent: string | undefined): Omit<TokenUse, 'at'> {
  return {
    ip: cut(ip, MAX_ADDRESS).toWellFormed(),
    userAgent: userAgent === undefined ? null : cut(maskTokens(userAgent), MAX_USER_AGENT).toWellFormed(),
  };
}

function cut(text: string, bytes: number): string {
  // A UTF-16 code unit takes at most three bytes.
  if (text.length * 3 <= bytes || Buffer.byteLength(text) <= bytes) return text;
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(bytes));
  return text.slice(0, read);
}
