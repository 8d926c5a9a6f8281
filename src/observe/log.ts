import { pino, type Logger } from 'pino';
import { type Destination, openStdout } from './destination.js';

/** What the log understands; lower layers never log, they return reasons. */
export type Log = Logger;

/** The log of a process and the way to empty its buffer before the process ends. */
export interface LogSink {
  readonly log: Log;
  /** Writes text for people, in its turn between the lines of the log. */
  print(text: string): void;
  flush(): Promise<void>;
}

/** http-proxy calls `util._extend`, which newer Node calls deprecated. Nobody who runs Latchkey can do anything about it. */
const NOT_TOLD = 'DEP0060';

/** Has Node's own warnings written to the log, as lines like all others, instead of to standard error. */
export function logWarnings(log: Log): void {
  process.removeAllListeners('warning');
  process.on('warning', (warning: Error & { code?: string }) => {
    if (warning.code !== NOT_TOLD) log.warn({ err: warning, code: warning.code }, 'Node.js warning');
  });
}

/**
 * JSON lines on stdout. They are never waited for: what nobody takes is given up and counted.
 *
 * @param level lines below it are not written; it may be changed while the process runs
 */
export function createLog(level: string): LogSink {
  const destination = openStdout();
  const settings = { level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime };
  return {
    log: pino(settings, destination),
    print: (text) => destination.write(text),
    flush: () => destination.flush(),
  };
}

/**
 * Where the lines of a log go: the way around the serializer for what many requests write, as whole lines, which may be held back
 * for a moment.
 */
export function destinationOf(log: Log): Destination {
  const { [pino.symbols.streamSym]: stream } = log as unknown as Record<symbol, Partial<Destination>>;
  if (stream?.beginLine === undefined) throw new Error('this log does not write to a destination of its own');
  return stream as Destination;
}
