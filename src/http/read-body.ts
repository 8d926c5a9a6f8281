import type { IncomingMessage } from 'node:http';
import type { Refusal } from '../domain/refusal.js';
import { MAX_BODY } from './body.js';

/** A body of an own endpoint must be here within this time. */
const BODY_TIMEOUT_MS = 15_000;

/**
 * Reads a body of at most {@link MAX_BODY} bytes. A longer one is refused before it is read where it says
 * so, and at the limit otherwise. Resolves to undefined when the client went away.
 */
export function readBody(
  req: IncomingMessage,
  declared: number | undefined,
): Promise<Buffer | Refusal | undefined> {
  if (declared !== undefined && declared > MAX_BODY) return Promise.resolve(tooLarge());
  // Nothing is unpacked: a small body that grows is no way around the limit.
  if (req.headers['content-encoding'] !== undefined) {
    return Promise.resolve({ refusal: 'malformed', detail: 'a compressed body is not taken' });
  }
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const finish = (result: Buffer | Refusal | undefined) => {
      clearTimeout(timer);
      req.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone);
      resolve(result);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_BODY) finish(tooLarge());
      else chunks.push(chunk);
    };
    const onEnd = () => finish(Buffer.concat(chunks));
    const onGone = () => finish(undefined);
    const timer = setTimeout(
      () => finish({ refusal: 'too_slow', detail: 'the body took too long' }),
      BODY_TIMEOUT_MS,
    );
    req.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
  });
}

function tooLarge(): Refusal {
  return { refusal: 'body_too_large', detail: `the body is over ${MAX_BODY} bytes` };
}
