import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import { type DestinationStream, pino } from 'pino';
import { LineBuffer } from './line-buffer.js';
import { countDroppedLog } from './metrics.js';

/** What waits for a reader of the log beyond this is given up, in bytes. */
const MAX_WAITING = 8 * 1024 * 1024;
/** A process that ends waits no longer than this for a reader of its log. */
const FLUSH_MS = 2_000;
/**
 * Lines that may wait are written together, so late by as much as this at most. A system call for each line, on a thread of the
 * pool for a file, costs a quarter of all that a proxied request costs.
 */
const GATHER_MS = 10;
/** Bytes that are written at once, however soon. */
const GATHER_SIZE = 64 * 1024;
const END_OF_LINE = 0x0a;

/** Where lines of the log go, in the order in which they are given. */
export interface Destination extends DestinationStream {
  /** Begins a line that may wait for others: whoever asks adds to it, then calls {@link endLine}. undefined: too much waits. */
  beginLine(): LineBuffer | undefined;
  endLine(): void;
  /** Has what waits written in this turn of the event loop. */
  flushSoon(): void;
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
  /** Bytes that nobody took yet. */
  readonly waiting: () => number;
  readonly write: (lines: Buffer) => void;
  readonly flush: () => Promise<void>;
}

/** Gathers lines and hands them on together: those of one turn of the event loop, or of a moment when all of them may wait. */
class GatheringDestination implements Destination {
  readonly #sink: Sink;
  readonly #lines = new LineBuffer();
  #flushesSoon = false;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  write(line: string): void {
    const lines = this.beginLine();
    if (lines === undefined) return;
    lines.text(line);
    this.endLine();
    this.flushSoon();
  }

  beginLine(): LineBuffer | undefined {
    if (this.#lines.length + this.#sink.waiting() > MAX_WAITING) {
      countDroppedLog();
      return undefined;
    }
    return this.#lines.begin();
  }

  endLine(): void {
    const first = this.#lines.length === 0;
    this.#lines.end();
    if (this.#lines.length > GATHER_SIZE) this.#write();
    else if (first) setTimeout(this.#write, GATHER_MS);
  }

  flushSoon(): void {
    if (this.#flushesSoon) return;
    this.#flushesSoon = true;
    setImmediate(this.#write);
  }

  async flush(): Promise<void> {
    this.#write();
    await this.#sink.flush();
  }

  readonly #write = (): void => {
    this.#flushesSoon = false;
    if (this.#lines.length > 0) this.#sink.write(this.#lines.take());
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
  const file = pino.destination({ dest: 1, sync: false, maxLength: MAX_WAITING, contentMode: 'buffer' });
  file.on('drop', (lines: Buffer) => {
    for (const byte of lines) if (byte === END_OF_LINE) countDroppedLog();
  });
  return {
    // It gives up by itself what is too much.
    waiting: () => 0,
    // Its types know only its other mode, of text.
    write: (lines) => void file.write(lines as unknown as string),
    flush: async () => {
      file.flushSync();
    },
  };
}
