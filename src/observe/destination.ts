import { setTimeout as sleep } from 'node:timers/promises';
import type { DestinationStream } from 'pino';
import { LineBuffer } from './json-line.js';
import { metrics } from './metrics.js';
import { printableLines } from '../util/text.js';
import { openStdoutSink, type Sink } from './stdout-sink.js';

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

export function openStdout(): Destination {
  return new GatheringDestination(openStdoutSink());
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
