import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import { type DestinationStream, pino } from 'pino';
import { countDroppedLog } from './metrics.js';

/** What waits for a reader of the log beyond this is given up, in characters. */
const MAX_WAITING = 8 * 1024 * 1024;
/** A process that ends waits no longer than this for a reader of its log. */
const FLUSH_MS = 2_000;

/** Where lines of the log go. */
export interface Destination extends DestinationStream {
  /** Resolves when everything is written, or nobody takes it. */
  flush(): Promise<void>;
}

/** Opens standard output for a log that is never waited for. */
export function openStdout(): Destination {
  const stats = fstatSync(1);
  return stats.isFIFO() || stats.isSocket() ? new PipeDestination() : fileDestination();
}

/**
 * A pipe that nobody may read from. A write to a pipe that is full blocks whoever writes, be it a thread of the pool, and
 * with it the end of the process; so it is written to without blocking, as a socket is.
 */
class PipeDestination implements Destination {
  readonly #socket = new Socket({ fd: 1, readable: false, writable: true });
  #lines = '';

  constructor() {
    // Whoever read the log is gone; the server is not.
    this.#socket.on('error', () => undefined);
    this.#socket.unref();
  }

  write(line: string): void {
    if (this.#socket.destroyed || this.#lines.length + this.#socket.writableLength > MAX_WAITING) {
      countDroppedLog();
      return;
    }
    // Lines of one turn of the event loop are written together.
    if (this.#lines === '') setImmediate(this.#write);
    this.#lines += line;
  }

  async flush(): Promise<void> {
    this.#write();
    const limit = Date.now() + FLUSH_MS;
    while (!this.#socket.destroyed && this.#socket.writableLength > 0 && Date.now() < limit)
      await new Promise((resolve) => setTimeout(resolve, 10));
  }

  readonly #write = (): void => {
    const lines = this.#lines;
    this.#lines = '';
    if (lines !== '' && !this.#socket.destroyed) this.#socket.write(lines);
  };
}

function fileDestination(): Destination {
  const file = pino.destination({ dest: 1, sync: false, maxLength: MAX_WAITING });
  file.on('drop', countDroppedLog);
  return {
    write: (line) => void file.write(line),
    flush: async () => {
      file.flushSync();
    },
  };
}
