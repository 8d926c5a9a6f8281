import { setImmediate } from 'node:timers/promises';

/** A body as it is sent. */
export interface Content {
  readonly type: string;
  readonly bytes: Buffer;
  /**
   * Whether caches may keep it forever, because changed content has another
   * name; otherwise `no-store`.
   */
  readonly immutable: boolean;
}

/** Milliseconds of serialization between two yields to the event loop. */
const SLICE_MS = 4;
/** Characters that are encoded at a time. */
const PIECE = 64 * 1024;

/**
 * Serializes a value as a JSON response body.
 *
 * A body ends with a newline, so that a terminal shows its next prompt on a line of its own.
 */
export function jsonBody(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

/**
 * Serializes a list as a JSON array for a response body.
 *
 * It yields to the event loop between slices: a user may own a thousand tokens of 7 KiB, and a
 * customer many times as many.
 *
 * @param shown converts an item to its JSON object
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
