import type { Config } from '../config/schema/config.js';
import { MAX_TIMER_MS } from '../util/time.js';
import { UNFRAMED } from '../http1/write.js';
import type { Address } from './address.js';
import { causeOf } from './faults.js';
import type { Dispatcher, ResponseHandler } from './upstream-request.js';

type Settings = NonNullable<Config['upstreams'][string]['health_check']>;

const FIRST_WITHIN_MS = 1_000;
/** Random variation of the interval, as a fraction, so that processes do not check in step. */
const JITTER = 0.1;
const FIELDS: readonly string[] = ['User-Agent', 'latchkey-health-check'];

/**
 * Periodically checks an address, each time over a connection of its own: so it detects whether new ones are
 * accepted. A redirect counts as a response.
 */
export class HealthCheck {
  readonly #address: Address;
  readonly #host: string;
  readonly #settings: Settings;
  readonly #found: (fault: string | undefined) => void;
  #timer: NodeJS.Timeout | undefined;
  #pool: Dispatcher | undefined;
  #stopped = false;

  /** @param found called after each check with what is wrong; undefined when healthy */
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
    this.#pool?.destroy();
  }

  #after(ms: number): void {
    this.#timer = setTimeout(() => {
      void this.#probe().then((fault) => {
        if (this.#stopped) return;
        this.#found(fault);
        const wait = this.#settings.interval * (1 - JITTER + 2 * JITTER * Math.random());
        this.#after(Math.min(wait, MAX_TIMER_MS));
      });
    }, ms).unref();
  }

  #probe(): Promise<string | undefined> {
    const { path, timeout } = this.#settings;
    return new Promise((resolve) => {
      const pool = this.#address.openPool();
      this.#pool = pool;
      const timer = setTimeout(
        () => finish(`health check failed: no response within ${timeout} ms`),
        timeout,
      );
      const finish = (fault: string | undefined): void => {
        clearTimeout(timer);
        resolve(fault);
        pool.destroy();
      };
      pool.dispatch(
        {
          method: 'GET',
          target: path,
          host: this.#host,
          fields: FIELDS,
          body: undefined,
          length: UNFRAMED,
          closes: true,
        },
        statusReader(finish),
      );
    });
  }
}

function ignore(): void {}

/** Reads the status of a response, and ignores the rest. */
function statusReader(finish: (fault: string | undefined) => void): ResponseHandler {
  return {
    connection: undefined,
    onRequestStart: ignore,
    onInformational: ignore,
    onResponseStart: (status) => finish(status < 400 ? undefined : `health check responded with ${status}`),
    onReadEnd: ignore,
    onResponseData: ignore,
    onResponseEnd: ignore,
    onResponseError: (error) => finish(`health check failed: ${causeOf(error)}`),
  };
}
