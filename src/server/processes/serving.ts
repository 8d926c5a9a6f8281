import type { LoadedConfig } from '../../config/load.js';
import type { CasualtyCounts } from '../../pipeline/casualties.js';
import type { Log } from '../../observe/log.js';

/** What serves the public port: this process, or the workers that it watches over. */
export interface Serving {
  readonly url: string;
  /** The decision port; null when it is off. */
  readonly decisionUrl: string | null;
  /** The gRPC port; null when it is off. */
  readonly grpcUrl: string | null;
  /** Number of processes that serve now. */
  readonly size: () => number;
  /** Metrics of every process, summed, as Prometheus text. */
  readonly metrics: () => Promise<{ type: string; text: string }>;
  /** What the shadow policy would decide otherwise, by every process that compared policies. */
  readonly casualties: () => Promise<readonly CasualtyCounts[]>;
  /**
   * Gets everything ready that another configuration needs, and changes nothing yet.
   * @throws Error when some process can't
   */
  readonly prepare: (next: LoadedConfig) => Promise<Prepared>;
  /**
   * Puts a new process in the place of each that serves, one after another: the new one serves before the old one
   * stops accepting and finishes what it has in flight.
   * @throws Error when a new one does not start; the rest stays as it was
   */
  readonly restart: () => Promise<void>;
  /** Stops accepting, waits for what is in flight, writes last uses down. */
  readonly drain: () => Promise<void>;
}

/** A configuration that waits to take over. One of both is called, once. */
interface Prepared {
  /** From its return on, every request is authorized by the new configuration. */
  readonly commit: () => Promise<void>;
  readonly abort: () => Promise<void>;
}

/** What became of a wish to replace the workers: why it was not done, or null. */
export type Restarted = { readonly fault: string | null };

/** Replaces the workers one by one, while the others serve. */
export class Restarter {
  readonly #serving: Serving;
  readonly #log: Log;
  #running: Promise<Restarted> | null = null;

  constructor(serving: Serving, log: Log) {
    this.#serving = serving;
    this.#log = log;
  }

  /** Who asks while they are being replaced waits for the same end. @param reason what asked for it, for the log */
  async restart(reason: string): Promise<Restarted> {
    this.#running ??= this.#restart(reason).finally(() => (this.#running = null));
    return this.#running;
  }

  async #restart(reason: string): Promise<Restarted> {
    try {
      await this.#serving.restart();
      this.#log.info({ reason, workers: this.#serving.size() }, 'workers replaced');
      return { fault: null };
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      this.#log.error({ reason, fault }, 'workers not replaced');
      return { fault };
    }
  }
}
