import { type Logger, pino } from 'pino';
import { type Destination, openStdout } from './destination.js';

/** Key under which a log stores the configuration hash in its lines. Child loggers have one too. */
const CONFIG_HASH = Symbol('config hash');

/** The logger type. Lower layers never log; they return reasons. */
export type Log = Logger & { [CONFIG_HASH]?: string };

/** The log of a process, and a way to flush it before the process exits. */
export interface LogSink {
  readonly log: Log;
  /** Writes human-readable text, in order with the lines of the log. */
  print(text: string): void;
  flush(): Promise<void>;
}

/**
 * Code of a warning that is not logged: http-proxy calls `util._extend`, which newer Node versions
 * deprecate. Operators cannot do anything about it.
 */
const SUPPRESSED_WARNING = 'DEP0060';

/** Redirects Node's own warnings from standard error to the log. */
export function logWarnings(log: Log): void {
  process.removeAllListeners('warning');
  process.on('warning', (warning: Error & { code?: string }) => {
    if (warning.code !== SUPPRESSED_WARNING)
      log.warn({ err: warning, code: warning.code }, 'Node.js warning');
  });
}

/** The settings that a configuration has for its log. */
export interface LogSettings {
  /** Minimum level that is written. */
  readonly level: string;
  /** Hash of the configuration, added to each line. */
  readonly configHash: string;
}

/**
 * Creates a log of JSON lines on stdout. Callers never wait for it: lines that the reader does not
 * accept are dropped and counted.
 */
export function createLog(settings: LogSettings): LogSink {
  const destination = openStdout();
  return {
    log: logTo(destination, settings),
    print: (text) => destination.write(text),
    flush: () => destination.flush(),
  };
}

/** Creates a log that writes to a destination. */
export function logTo(destination: Destination, settings: LogSettings): Log {
  const log: Log = pino(
    {
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      mixin: (_fields, _level, of) => ({ config_hash: (of as Log)[CONFIG_HASH] }),
    },
    destination,
  );
  useSettings(log, settings);
  return log;
}

/** Applies the level and hash of the configuration that the process now runs. */
export function useSettings(log: Log, { level, configHash }: LogSettings): void {
  log.level = level;
  log[CONFIG_HASH] = configHash;
}

/** Returns a child log for one configuration, whichever one the process runs later. */
export function logFor(log: Log, settings: LogSettings): Log {
  const own: Log = log.child({});
  useSettings(own, settings);
  return own;
}

/** Returns the configuration hash that a log adds to its lines. */
export function configHashOf(log: Log): string | undefined {
  return log[CONFIG_HASH];
}

/**
 * Returns the destination of a log's lines, to bypass the serializer.
 *
 * Frequent per-request records are written there as whole lines, which may be buffered for a
 * moment.
 */
export function destinationOf(log: Log): Destination {
  const { [pino.symbols.streamSym]: stream } = log as unknown as Record<symbol, Partial<Destination>>;
  if (stream?.beginLine === undefined) throw new Error('this log does not write to a destination of its own');
  return stream as Destination;
}
