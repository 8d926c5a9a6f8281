import { setImmediate } from 'node:timers/promises';
import type { Content } from './replies.js';

/** A list is written for so long without a break. */
const SLICE_MS = 4;
/** Characters that become bytes together. */
const PIECE = 64 * 1024;

/**
 * Writes a JSON array as the body of an answer, in slices with breaks in which others are served: a user may own a thousand
 * tokens of 7 KiB, and a customer many times as many.
 *
 * @param shown what an item is in the array
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
  pieces.push(Buffer.from(`${text}]`));
  return { type: 'application/json', bytes: Buffer.concat(pieces), immutable: false };
}
