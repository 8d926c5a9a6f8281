import type { LoadedConfig } from '../../config/load.js';
import type { ShadowDifferenceCounts } from '../../pipeline/shadow-differences.js';
import type { Log } from '../../observe/log.js';

/** Whatever serves the public port: this process, or the workers that it supervises. */
export interface Serving {
  readonly url: string;
  /** URL of the decision port; null when it is off. */
  readonly decisionUrl: string | null;
  /** URL of the gRPC port; null when it is off. */
  readonly grpcUrl: string | null;
  /** Number of serving processes. */
  readonly size: () => number;
  /** Process ids of those that have not responded to this process for ten seconds. */
  readonly hanging: () => readonly number[];
  /** Metrics of every process, summed, as Prometheus text. */
  readonly metrics: () => Promise<{ type: string; text: string }>;
  /** Decisions that the shadow policy would change, from every process that compared policies. */
  readonly casualties: () => Promise<readonly ShadowDifferenceCounts[]>;
  /**
   * Prepares everything that another configuration needs, without applying it.
   *
   * @throws WorkerUnreachable, or Error when a process cannot prepare it
   */
  readonly prepare: (next: LoadedConfig) => Promise<Prepared>;
  /** Lets other processes reopen their audit logs by name; a commit does this too. */
  readonly reopenAudit: () => Promise<void>;
  /**
   * Replaces each serving process, one after another. The new process serves before the old one
   * stops accepting and finishes its requests in flight.
   *
   * @throws Error when a new process does not start; the rest stays as it was
   */
  readonly restart: () => Promise<void>;
  /** Stops accepting, waits for requests in flight, and flushes last-seen data. */
  readonly drain: () => Promise<void>;
}

/** A configuration that is ready to take over. Exactly one of the two is called, once. */
interface Prepared {
  /** After it resolves, every request is authorized by the new configuration. */
  readonly commit: () => Promise<void>;
  readonly abort: () => Promise<void>;
}

/** Result of replacing the workers: why it failed, or null. */
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

  /**
   * Replaces the workers. Concurrent calls share one replacement.
   *
   * @param reason what requested it, for the log
   */
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
