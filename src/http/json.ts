import { setImmediate } from 'node:timers/promises';

export interface Content {
  readonly type: string;
  readonly bytes: Buffer;
  /** Whether caches may keep it forever, because changed content has another name. */
  readonly immutable: boolean;
}

/** Milliseconds of serialization between two yields to the event loop. */
const SLICE_MS = 4;
const PIECE = 64 * 1024;

/** A body ends with a newline, so that a terminal shows its next prompt on a line of its own. */
export function jsonBody(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

/**
 * Serializes a list as a JSON array. Yields between slices: a customer may own thousands of tokens of 7 KiB.
 */
export async function jsonList<T>(items: Iterable<T>, shown: (item: T) => object): Promise<Content> {
  const pieces: Buffer[] = [];
  let text = '[';
  let separator = '';
  let until = performance.now() + SLICE_MS;
  for (const item of items) {
    text += separator + JSON.stringify(shown(item));
    separator = ',';
    if (text.length >= PIECE) {
      pieces.push(Buffer.from(text));
      text = '';
    }
    if (performance.now() < until) continue;
    await setImmediate();
    until = performance.now() + SLICE_MS;
  }
  pieces.push(Buffer.from(`${text}]\n`));
  return { type: 'application/json', bytes: Buffer.concat(pieces), immutable: false };
}
