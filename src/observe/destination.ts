import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import { type DestinationStream, pino } from 'pino';
import { countDroppedLog } from './metrics.js';

/** What waits for a reader of the log beyond this is given up, in characters. */
const MAX_WAITING = 8 * 1024 * 1024;
/** A process that ends waits no longer than this for a reader of its log. */
const FLUSH_MS = 2_000;
/**
 * Lines that may wait are written together, so late by as much as this at most. A system call for each line, on a thread of the
 * pool for a file, costs a quarter of all that a proxied request costs.
 */
const GATHER_MS = 10;
/** Characters that are written at once, however soon. */
const GATHER_SIZE = 64 * 1024;

/** Where lines of the log go, in the order in which they are given. */
export interface Destination extends DestinationStream {
  /** Takes a line that may wait for others. */
  gather(line: string): void;
  /** Resolves when everything is written, or nobody takes it. */
  flush(): Promise<void>;
}

/** Opens standard output for a log that is never waited for. */
export function openStdout(): Destination {
  const stats = fstatSync(1);
  return new GatheringDestination(stats.isFIFO() || stats.isSocket() ? openPipe() : openFile());
}

/** What takes gathered lines. */
interface Sink {
  /** Characters that nobody took yet. */
  readonly waiting: () => number;
  readonly write: (lines: string) => void;
  readonly flush: () => Promise<void>;
}

/** Gathers lines and hands them on together: those of one turn of the event loop, or of a moment when all of them may wait. */
class GatheringDestination implements Destination {
  readonly #sink: Sink;
  #lines = '';
  #hurries = false;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  write(line: string): void {
    if (!this.#add(line) || this.#hurries) return;
    this.#hurries = true;
    setImmediate(this.#write);
  }

  gather(line: string): void {
    const first = this.#lines === '';
    if (this.#add(line) && first) setTimeout(this.#write, GATHER_MS);
  }

  async flush(): Promise<void> {
    this.#write();
    await this.#sink.flush();
  }

  #add(line: string): boolean {
    if (this.#lines.length + this.#sink.waiting() > MAX_WAITING) {
      countDroppedLog();
      return false;
    }
    this.#lines += line;
    if (this.#lines.length > GATHER_SIZE) this.#write();
    return true;
  }

  readonly #write = (): void => {
    const lines = this.#lines;
    this.#lines = '';
    this.#hurries = false;
    if (lines !== '') this.#sink.write(lines);
  };
}

/**
 * A pipe that nobody may read from. A write to a pipe that is full blocks whoever writes, be it a thread of the pool, and
 * with it the end of the process; so it is written to without blocking, as a socket is.
 */
function openPipe(): Sink {
  const socket = new Socket({ fd: 1, readable: false, writable: true });
  // Whoever read the log is gone; the server is not.
  socket.on('error', () => undefined);
  socket.unref();
  return {
    // What nobody can take counts as too much.
    waiting: () => (socket.destroyed ? Infinity : socket.writableLength),
    write: (lines) => {
      if (!socket.destroyed) socket.write(lines);
    },
    flush: async () => {
      const limit = Date.now() + FLUSH_MS;
      while (!socket.destroyed && socket.writableLength > 0 && Date.now() < limit)
        await new Promise((resolve) => setTimeout(resolve, 10));
    },
  };
}

function openFile(): Sink {
  const file = pino.destination({ dest: 1, sync: false, maxLength: MAX_WAITING });
  file.on('drop', (lines: string) => {
    for (const _ of lines.matchAll(/\n/g)) countDroppedLog();
  });
  return {
    // It gives up by itself what is too much.
    waiting: () => 0,
    write: (lines) => void file.write(lines),
    flush: async () => {
      file.flushSync();
    },
  };
}
