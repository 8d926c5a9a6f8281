import { createHash } from 'node:crypto';
import { BrokenCircuitError, circuitBreaker, ConsecutiveBreaker, handleWhen } from 'cockatiel';
import { ReplyError } from 'ioredis';
import { StoreUnavailable } from '../store.js';
import { connect, type RedisConnection } from './connect.js';
import { BEGIN, SCRIPTS, type ScriptName, scriptText } from './scripts.js';
import type { RedisSettings } from './settings.js';

/** So many commands in a row without an answer stop the asking. */
const FAILURES = 5;
/** Then one command is let through this often to see whether it is over. */
const PROBE_MS = 500;
/** A start waits this long for the first connection and goes on without it. */
const FIRST_CONNECTION_MS = 2_000;

interface Script {
  readonly text: string;
  readonly sha: string;
}

const scripts = Object.fromEntries(
  Object.keys(SCRIPTS).map((name) => {
    const text = scriptText(name as ScriptName);
    return [name, { text, sha: createHash('sha1').update(text).digest('hex') }];
  }),
) as Record<ScriptName, Script>;

/**
 * Runs commands and scripts on Redis. Whatever goes wrong is a {@link StoreUnavailable}: never an answer.
 *
 * After several commands without an answer the next ones fail at once, so that nobody waits for a timeout in
 * line; a reply that refuses (no memory, no permission, a wrong type) is an answer and does not count.
 */
export class RedisClient {
  readonly connection: RedisConnection;
  /** Key prefix in braces: the hash tag that puts all keys in one slot. */
  readonly prefix: string;
  readonly #breaker = circuitBreaker(
    handleWhen((error) => !(error instanceof ReplyError)),
    { halfOpenAfter: PROBE_MS, breaker: new ConsecutiveBreaker(FAILURES) },
  );

  constructor(settings: RedisSettings) {
    this.prefix = `{${settings.prefix}}`;
    this.connection = connect(settings);
  }

  /** Resolves when the first connection is there, or when a start should not wait for it any longer. */
  async whenReady(): Promise<void> {
    if (this.connection.status === 'ready') return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, FIRST_CONNECTION_MS);
      this.connection.once('ready', () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  key(name: string): string {
    return this.prefix + name;
  }

  /** Runs a command. @throws StoreUnavailable */
  async command<T>(run: (connection: RedisConnection) => Promise<T>): Promise<T> {
    try {
      return await this.#breaker.execute(() => run(this.connection));
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  /** Runs a script by its digest; a server that does not know it (yet, or after a failover) gets its text. */
  async script(name: ScriptName, ...args: (string | number)[]): Promise<unknown> {
    const { sha, text } = scripts[name];
    const route = this.key('meta');
    return this.command(async (connection) => {
      try {
        return await connection.evalsha(sha, 1, route, this.prefix, ...args);
      } catch (error) {
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
        return connection.eval(text, 1, route, this.prefix, ...args);
      }
    });
  }

  /** Writes the mark of a store unless there is one, and returns it. @throws StoreUnavailable */
  async begin(mark: string): Promise<string> {
    const run = (connection: RedisConnection) =>
      connection.eval(BEGIN, 1, this.key('meta'), this.prefix, mark);
    return (await this.command(run)) as string;
  }

  async close(): Promise<void> {
    await this.connection.quit().catch(() => this.connection.disconnect());
  }
}

function asUnavailable(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  // What a script of ours refuses with is a whole sentence.
  if (error instanceof Error && error.message.startsWith('LATCHKEY ')) {
    return new StoreUnavailable(error.message.slice('LATCHKEY '.length));
  }
  const reason =
    error instanceof BrokenCircuitError
      ? 'it did not answer several times in a row'
      : error instanceof Error
        ? error.message
        : String(error);
  return new StoreUnavailable(`Redis can not answer (${reason})`, { cause: error });
}
