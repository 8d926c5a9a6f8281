import type { Log } from '../../observe/log.js';
import type { Serving } from './serving.js';

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
