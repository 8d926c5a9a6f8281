import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import { type DestinationStream, pino } from 'pino';
import { LineBuffer } from './line-buffer.js';
import { droppedLogLines } from './metrics.js';

/** Maximum bytes buffered for the reader of the log; further lines are dropped. */
const MAX_WAITING = 8 * 1024 * 1024;
/** Maximum time that an exiting process waits for the reader of its log. */
const FLUSH_MS = 2_000;
/**
 * Maximum delay of lines that may be buffered; they are written together.
 *
 * One system call per line (on a pool thread, for a file) costs a quarter of all that a proxied
 * request costs.
 */
const GATHER_MS = 10;
/** Buffered bytes that trigger a write at once. */
const GATHER_SIZE = 64 * 1024;
const END_OF_LINE = 0x0a;

/** Where log lines are written, in order. */
export interface Destination extends DestinationStream {
  /**
   * Begins a line that may be buffered. The caller appends to it, then calls {@link endLine}.
   *
   * @returns undefined when too much is buffered
   */
  beginLine(): LineBuffer | undefined;
  endLine(): void;
  /** Schedules a write of the buffered lines at the end of this turn of the event loop. */
  flushSoon(): void;
  /** Resolves when everything is written or the reader does not accept more. */
  flush(): Promise<void>;
}

/** Opens standard output for a log that callers never wait for. */
export function openStdout(): Destination {
  const stats = fstatSync(1);
  return new GatheringDestination(stats.isFIFO() || stats.isSocket() ? openPipe() : openFile());
}

/** Accepts batches of lines. */
interface Sink {
  /** Bytes not yet accepted by the reader. */
  readonly waiting: () => number;
  readonly write: (lines: Buffer) => void;
  readonly flush: () => Promise<void>;
}

/**
 * Batches lines: those of one turn of the event loop, or of up to 10 ms if all of them may wait.
 */
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
      droppedLogLines.inc();
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
 * Opens a pipe that may have no reader.
 *
 * Writing to a full pipe blocks the writer, even a pool thread, and then the process cannot exit.
 * So the pipe is written to without blocking, like a socket.
 */
function openPipe(): Sink {
  const socket = new Socket({ fd: 1, readable: false, writable: true });
  // The reader of the log is gone, but the server keeps running.
  socket.on('error', () => undefined);
  socket.unref();
  return {
    // Without a reader, the buffer counts as full.
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
    for (const byte of lines) if (byte === END_OF_LINE) droppedLogLines.inc();
  });
  return {
    // The file destination drops excess lines by itself.
    waiting: () => 0,
    // The types only cover its text mode.
    write: (lines) => void file.write(lines as unknown as string),
    flush: async () => {
      file.flushSync();
    },
  };
}
