import type { Http2Stream } from 'node:http2';

/** Size of the blocks to which small chunks are copied, in bytes. */
const BLOCK = 2_048;

/**
 * Bounds the memory of unread body data by the windows of HTTP/2.
 *
 * Node emits each DATA frame as a slice of the read that it arrived in, and the slice keeps that
 * read: one byte between frames that no window counts, such as unknown ones, occupied up to 64 KiB.
 * So a chunk that is the smaller part of its read is copied. While nothing reads the stream, such
 * chunks are joined, because each one alone takes a hundred bytes more.
 */
export function compactReads(stream: Http2Stream): void {
  const push = stream.push.bind(stream);
  const resume = stream.resume.bind(stream);
  let block = Buffer.alloc(0);
  /** The part of the block that is not pushed yet. */
  let from = 0;
  let end = 0;
  const flush = (): boolean => {
    if (from === end) return true;
    const joined = block.subarray(from, end);
    from = end;
    return push(joined);
  };
  const copy = (chunk: Buffer): boolean => {
    let accepts = true;
    if (chunk.length > block.length - end) {
      accepts = flush();
      // Not a part of the pool, which newer versions of Node make larger than a read.
      block = Buffer.allocUnsafeSlow(Math.max(BLOCK, chunk.length));
      from = end = 0;
    }
    end += chunk.copy(block, end);
    return stream.readableFlowing === true ? flush() : accepts;
  };
  stream.push = (chunk: Buffer | null) => {
    if (chunk !== null && 2 * chunk.length < chunk.buffer.byteLength) return copy(chunk);
    flush();
    return push(chunk);
  };
  stream.resume = () => {
    flush();
    return resume();
  };
}
