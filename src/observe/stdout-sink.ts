import cluster from 'node:cluster';
import { fstatSync, write } from 'node:fs';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { AUDIT_LINE_END } from './json-line.js';
import { metrics } from './metrics.js';

const STDOUT = 1;
const NEWLINE = Buffer.from('\n');
/** Bytes that a pipe takes entirely or not at all (PIPE_BUF): lines of other workers stay outside. */
const ATOMIC_WRITE = 4096;
const BUSY_MS = 100;

export interface Sink {
  readonly waiting: () => number;
  readonly write: (lines: Buffer) => void;
}

/**
 * Opens standard output. Writing never blocks, throws or rejects; lines that cannot be written are counted.
 */
export function openStdoutSink(): Sink {
  const stats = fstatSync(STDOUT);
  return stats.isFIFO() || stats.isSocket() ? openPipe() : new FileSink();
}

function countDropped(lines: Buffer): void {
  metrics.droppedLogLines.inc(occurrences(lines, NEWLINE));
  metrics.auditFailures.inc(occurrences(lines, AUDIT_LINE_END));
}

function occurrences(lines: Buffer, part: Buffer): number {
  let count = 0;
  for (let at = lines.indexOf(part); at >= 0; at = lines.indexOf(part, at + 1)) count += 1;
  return count;
}

/** Writes without blocking: a full pipe without a reader would keep the process from exiting. */
function openPipe(): Sink {
  const socket = new Socket({ fd: STDOUT, readable: false, writable: true });
  // The reader of the log is gone, but the server keeps running.
  socket.on('error', () => undefined);
  socket.unref();
  // A socket joins all that waits into one write; this makes one of each piece.
  const pieces = new Writable({ write: (piece, _, done) => void socket.write(piece, done) });
  pieces.on('error', () => undefined);
  return {
    waiting: () => (socket.destroyed ? Infinity : pieces.writableLength),
    write: (lines) => {
      for (const piece of isShared() ? piecesOf(lines) : [lines])
        pieces.write(piece, (error) => {
          if (error != null) countDropped(piece);
        });
    },
  };
}

function isShared(): boolean {
  return cluster.isWorker || Object.keys(cluster.workers ?? {}).length > 0;
}

/** Splits lines into pieces of whole lines that are written at once; a longer line is one piece. */
function* piecesOf(lines: Buffer): Generator<Buffer> {
  for (let start = 0, end = 0; start < lines.length; start = end) {
    const limit = start + ATOMIC_WRITE;
    const within = lines.length <= limit ? lines.length : lines.lastIndexOf(NEWLINE, limit - 1) + 1;
    end = within > start ? within : lines.indexOf(NEWLINE, limit) + 1;
    yield lines.subarray(start, end);
  }
}

const writeTo = promisify(write);

/** Writes to a file, a terminal or a device; a batch that a full disk refuses is dropped. */
class FileSink implements Sink {
  readonly #queue: Buffer[] = [];
  #waiting = 0;
  /** Whether the last bytes written are part of a line whose rest was dropped. */
  #isTorn = false;

  readonly waiting = (): number => this.#waiting;

  readonly write = (lines: Buffer): void => {
    this.#waiting += lines.length;
    this.#queue.push(lines);
    if (this.#queue.length === 1) void this.#writeQueue();
  };

  async #writeQueue(): Promise<void> {
    for (let [lines] = this.#queue; lines !== undefined; [lines] = this.#queue) {
      await this.#writeBatch(lines);
      this.#queue.shift();
      this.#waiting -= lines.length;
    }
  }

  async #writeBatch(lines: Buffer): Promise<void> {
    const start = this.#isTorn ? NEWLINE.length : 0;
    const batch = this.#isTorn ? Buffer.concat([NEWLINE, lines]) : lines;
    let written = 0;
    try {
      while (written < batch.length) written += await writeSome(batch.subarray(written));
    } catch {
      countDropped(batch.subarray(Math.max(start, written)));
    }
    if (written > 0) this.#isTorn = batch[written - 1] !== NEWLINE[0];
  }
}

/** Writes some of the bytes, and returns how many. */
async function writeSome(bytes: Buffer): Promise<number> {
  for (;;) {
    try {
      return (await writeTo(STDOUT, bytes)).bytesWritten;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      await sleep(BUSY_MS);
    }
  }
}
