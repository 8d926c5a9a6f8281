import cluster from 'node:cluster';
import { fstatSync, write } from 'node:fs';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { DestinationStream } from 'pino';
import { printableLines } from '../util/text.js';
import { AUDIT_LINE_END, LineBuffer } from './json-line.js';
import { metrics } from './metrics.js';

const MAX_WAITING = 8 * 1024 * 1024;
const FLUSH_MS = 2_000;
const FLUSH_POLL_MS = 10;
/** Maximum delay of lines that may be buffered, to save system calls. */
const GATHER_MS = 10;
const GATHER_SIZE = 64 * 1024;

export interface Destination extends DestinationStream {
  /** Begins a line that may be buffered, up to {@link endLine}; undefined when too much is buffered. */
  beginLine(): LineBuffer | undefined;
  endLine(): void;
  /** Schedules a write of the buffered lines at the end of this turn of the event loop. */
  flushSoon(): void;
  /** Resolves when everything is written or dropped, or after two seconds. */
  flush(): Promise<void>;
}

/** Writing never blocks, throws or rejects; lines that cannot be written are counted. */
export function openStdout(): Destination {
  const stats = fstatSync(STDOUT);
  return new GatheringDestination(stats.isFIFO() || stats.isSocket() ? openPipe() : openFile());
}

/** Batches lines: those of one turn of the event loop, or of up to 10 ms if all of them may wait. */
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
    lines.text(printableLines(line));
    this.endLine();
    this.flushSoon();
  }

  beginLine(): LineBuffer | undefined {
    if (this.#lines.length + this.#sink.waiting() > MAX_WAITING) {
      metrics.droppedLogLines.inc();
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
    const limit = performance.now() + FLUSH_MS;
    for (const { waiting } = this.#sink; waiting() > 0 && waiting() < Infinity && performance.now() < limit;)
      await sleep(FLUSH_POLL_MS);
  }

  readonly #write = (): void => {
    this.#flushesSoon = false;
    if (this.#lines.length > 0) this.#sink.write(this.#lines.take());
  };
}

const STDOUT = 1;
const NEWLINE = Buffer.from('\n');
/** Bytes that a pipe takes entirely or not at all (PIPE_BUF): lines of other workers stay outside. */
const ATOMIC_WRITE = 4096;
const BUSY_MS = 100;

interface Sink {
  readonly waiting: () => number;
  readonly write: (lines: Buffer) => void;
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
function openFile(): Sink {
  /** Whether the last bytes written are part of a line whose rest was dropped. */
  let isTorn = false;
  const writeBatch = async (lines: Buffer): Promise<void> => {
    const start = isTorn ? NEWLINE.length : 0;
    const batch = isTorn ? Buffer.concat([NEWLINE, lines]) : lines;
    let written = 0;
    try {
      while (written < batch.length) written += await writeSome(batch.subarray(written));
    } catch {
      countDropped(batch.subarray(Math.max(start, written)));
    }
    if (written > 0) isTorn = batch[written - 1] !== NEWLINE[0];
  };
  const batches = new Writable({
    write: (lines: Buffer, _, done) => void writeBatch(lines).then(() => done()),
  });
  return { waiting: () => batches.writableLength, write: (lines) => void batches.write(lines) };
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
