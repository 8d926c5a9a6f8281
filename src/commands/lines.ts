import { createReadStream } from 'node:fs';
import { describeSystemError } from '../util/system-error.js';
import { CommandFailed } from './terminal/output.js';

const LINE_FEED = 0x0a;

/**
 * Streams the lines of a file (`-`: standard input). Only a line feed ends a line: names may contain
 * any other separator. `isCut`: the file ends within the line, as after a crash.
 */
export async function* linesOf(file: string) {
  const parts: Buffer[] = [];
  let number = 0;
  try {
    const chunks: AsyncIterable<Buffer> = file === '-' ? process.stdin : createReadStream(file);
    for await (const chunk of chunks) {
      let from = 0;
      for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
        yield { bytes: Buffer.concat([...parts.splice(0), chunk.subarray(from, at)]), number: ++number, isCut: false };
        from = at + 1;
      }
      if (from < chunk.length) parts.push(chunk.subarray(from));
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    throw new CommandFailed(`${file} cannot be read: ${describeSystemError(error)}`);
  }
  if (parts.length > 0) yield { bytes: Buffer.concat(parts), number: number + 1, isCut: true };
} // prettier-ignore
