import type { IncomingMessage } from 'node:http';
import type { Refusal } from '../domain/refusal.js';

/** Limits of the body of an own endpoint. */
export interface BodyLimits {
  /** Bytes. */
  readonly body_size: number;
  /** Milliseconds in which all of it must be here. */
  readonly body_timeout: number;
}

/**
 * Reads a body within its limits. A longer one is refused before it is read where it says
 * so, and at the limit otherwise. Resolves to undefined when the client went away.
 */
export function readBody(
  req: IncomingMessage,
  declared: number | undefined,
  limits: BodyLimits,
): Promise<Buffer | Refusal | undefined> {
  if (declared !== undefined && declared > limits.body_size) return Promise.resolve(tooLarge(limits));
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
      if (size > limits.body_size) finish(tooLarge(limits));
      else chunks.push(chunk);
    };
    const onEnd = () => finish(Buffer.concat(chunks));
    const onGone = () => finish(undefined);
    const timer = setTimeout(
      () => finish({ refusal: 'too_slow', detail: 'the body took too long' }),
      limits.body_timeout,
    );
    req.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
  });
}

function tooLarge({ body_size }: BodyLimits): Refusal {
  return { refusal: 'body_too_large', detail: `the body is over ${body_size} bytes` };
}
