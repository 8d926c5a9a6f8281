import type { Config } from '../config/schema/config.js';
import { UNFRAMED } from '../http1/write.js';
import type { Address } from './address.js';
import { causeOf } from './faults.js';
import type { Dispatcher, ResponseHandler, UpstreamExchange } from './upstream-request.js';

type Settings = NonNullable<Config['upstreams'][string]['health_check']>;

/** The first check comes within this time; it does not wait for a long interval. */
const FIRST_WITHIN_MS = 1_000;
/** Part of the interval by which each one is longer or shorter, so that processes do not ask all at once. */
const JITTER = 0.1;
const FIELDS: readonly string[] = ['User-Agent', 'latchkey-health-check'];

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
  #pool: Dispatcher | undefined;
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
    this.#pool?.destroy();
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
  #ask(): Promise<string | undefined> {
    const { path, timeout } = this.#settings;
    return new Promise((resolve) => {
      const pool = this.#address.openPool();
      this.#pool = pool;
      const timer = setTimeout(
        () => finish(`its health check fails: no answer within ${timeout} ms`),
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
        new StatusReader(finish),
      );
    });
  }
}

/** Takes the status of an answer, and nothing else of it. */
class StatusReader implements ResponseHandler {
  connection: UpstreamExchange | undefined;
  readonly #finish: (fault: string | undefined) => void;

  constructor(finish: (fault: string | undefined) => void) {
    this.#finish = finish;
  }

  onRequestStart(): void {
    return undefined;
  }

  onInformational(): void {
    return undefined;
  }

  onResponseStart(status: number): void {
    this.#finish(status < 400 ? undefined : `its health check answers ${status}`);
  }

  onResponseData(): void {
    return undefined;
  }

  onResponseEnd(): void {
    return undefined;
  }

  onResponseError(error: Error): void {
    this.#finish(`its health check fails: ${causeOf(error)}`);
  }
}
