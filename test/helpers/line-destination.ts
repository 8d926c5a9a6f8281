import type { Destination } from '../../src/observe/destination.js';
import type { LineBuffer } from '../../src/observe/json-line.js';

/** A destination of a log that collects its lines in a buffer. */
export function lineDestination(lines: LineBuffer): Destination {
  return {
    beginLine: () => lines.begin(),
    endLine: () => lines.end(),
    write: () => undefined,
    flushSoon: () => undefined,
    flush: async () => undefined,
  };
}
