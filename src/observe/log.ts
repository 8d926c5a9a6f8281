// src/observe: log, audit log, metrics, traces.
// May import net and all below.
// Each has a file of its own.

import { type Logger, pino } from 'pino';
import { type Destination, openStdout } from './destination.js';

/** Key under which a log stores the configuration hash in its lines. Child loggers have one too. */
const CONFIG_HASH = Symbol('config hash');

/** The logger type. Lower layers never log; they return reasons. */
export type Log = Logger & { [CONFIG_HASH]?: string };

export interface LogSink {
  readonly log: Log;
  print(text: string): void;
  flush(): Promise<void>;
}

/** http-proxy calls the deprecated `util._extend`; operators cannot do anything about it. */
const SUPPRESSED_WARNING = 'DEP0060';

/** Redirects Node's own warnings from standard error to the log. */
export function logWarnings(log: Log): void {
  process.removeAllListeners('warning');
  process.on('warning', (warning: Error & { code?: string }) => {
    if (warning.code !== SUPPRESSED_WARNING)
      log.warn({ err: warning, code: warning.code }, 'Node.js warning');
  });
}

export interface LogSettings {
  readonly level: string;
  readonly configHash: string;
}

/** Creates a log of JSON lines on stdout; lines that the reader does not accept are dropped. */
export function createLog(settings: LogSettings): LogSink {
  const destination = openStdout();
  return {
    log: logTo(destination, settings),
    print: (text) => destination.write(text),
    flush: () => destination.flush(),
  };
}

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

export function configHashOf(log: Log): string | undefined {
  return log[CONFIG_HASH];
}

/** Returns the destination of a log's lines, where frequent records are written without the serializer. */
export function destinationOf(log: Log): Destination {
  const { [pino.symbols.streamSym]: stream } = log as unknown as Record<symbol, Partial<Destination>>;
  if (stream?.beginLine === undefined) throw new Error('this log does not write to a destination of its own');
  return stream as Destination;
}
