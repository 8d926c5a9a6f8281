import type { LoadedConfig } from '../../config/load.js';
import type { CasualtyCounts } from '../../pipeline/casualties.js';

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
