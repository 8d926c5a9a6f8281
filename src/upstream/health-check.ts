import type { Config } from '../config/schema/config.js';
import { Client } from 'undici';
import type { Address } from './address.js';
import { causeOf } from './faults.js';

type Settings = NonNullable<Config['upstreams'][string]['health_check']>;

/** The first check comes within this time; it does not wait for a long interval. */
const FIRST_WITHIN_MS = 1_000;
/** Where an open connection leads does not matter any more; TLS, if any, is inside it. */
const ORIGIN = 'http://upstream';
/** Part of the interval by which each one is longer or shorter, so that processes do not ask all at once. */
const JITTER = 0.1;

/**
 * Asks an address again and again. Each time on a connection of its own, so that it also finds out whether the address
 * still takes new ones, and no request has to wait for it. A redirect is an answer and is not followed.
 */
export class HealthCheck {
  readonly #address: Address;
  readonly #host: string;
  readonly #settings: Settings;
  readonly #found: (fault: string | undefined) => void;
  #timer: NodeJS.Timeout | undefined;
  #client: Client | undefined;
  #stopped = false;

  /**
   * @param host what the Host field says
   * @param found called after each check with what is wrong; undefined when nothing is
   */
  constructor(
    address: Address,
    host: string,
    settings: Settings,
    found: (fault: string | undefined) => void,
  ) {
    this.#address = address;
    this.#host = host;
    this.#settings = settings;
    this.#found = found;
  }

  start(): void {
    this.#after(Math.min(FIRST_WITHIN_MS, this.#settings.interval) * Math.random());
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#client?.destroy().catch(() => undefined);
  }

  #after(ms: number): void {
    this.#timer = setTimeout(() => {
      void this.#ask().then((fault) => {
        if (this.#stopped) return;
        this.#found(fault);
        this.#after(this.#settings.interval * (1 - JITTER + 2 * JITTER * Math.random()));
      });
    }, ms).unref();
  }

  /** What is wrong with the address; it never throws. */
  async #ask(): Promise<string | undefined> {
    const { path, timeout } = this.#settings;
    const client = new Client(ORIGIN, {
      connect: (_options, callback) =>
        this.#address.connect((opened) => {
          if (opened instanceof Error) callback(opened, null);
          else callback(null, opened);
        }),
    });
    this.#client = client;
    try {
      const { statusCode, body } = await client.request({
        method: 'GET',
        path,
        headers: { Host: this.#host, 'User-Agent': 'latchkey-health-check' },
        signal: AbortSignal.timeout(timeout),
      });
      body.on('error', () => undefined);
      return statusCode < 400 ? undefined : `its health check answers ${statusCode}`;
    } catch (error) {
      const { name } = error as Error;
      const cause = name === 'TimeoutError' ? `no answer within ${timeout} ms` : causeOf(error as Error);
      return `its health check fails: ${cause}`;
    } finally {
      client.destroy().catch(() => undefined);
    }
  }
}
