// src/observe: log, audit log, metrics, traces.
// May import net and all below.
// Each has a file of its own.

import { type Logger, pino } from 'pino';
import { type Destination, openStdout } from './destination.js';
import type { LevelFormat } from './json-line.js';

/** Key under which a log stores its settings. Child loggers have some too. */
const SETTINGS = Symbol('settings');

/** The logger type. Lower layers never log; they return reasons. */
export type Log = Logger & { [SETTINGS]?: LogSettings };

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
  readonly levelFormat: LevelFormat;
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
      mixin: (_fields, _level, of) => ({ config_hash: settingsOf(of as Log)?.configHash }),
    },
    destination,
  );
  useSettings(log, settings);
  return log;
}

export function useSettings(log: Log, settings: LogSettings): void {
  const isText = settings.levelFormat === 'text';
  // How lines begin: pino composes this once, for a format that never changes.
  const starts: Record<string, string> = {};
  for (const [number, label] of Object.entries(pino.levels.labels))
    starts[number] = `{"level":${isText ? `"${label}"` : number}`;
  log.level = settings.level;
  Object.assign(log, { [SETTINGS]: settings, [pino.symbols.lsCacheSym]: starts });
}

/** Returns a child log for one configuration, whichever one the process runs later. */
export function logFor(log: Log, settings: LogSettings): Log {
  const own: Log = log.child({});
  useSettings(own, settings);
  return own;
}

export function settingsOf(log: Log): LogSettings | undefined {
  return log[SETTINGS];
}

/** Returns the destination of a log's lines, where frequent records are written without the serializer. */
export function destinationOf(log: Log): Destination {
  const { [pino.symbols.streamSym]: stream } = log as unknown as Record<symbol, Partial<Destination>>;
  if (stream?.beginLine === undefined) throw new Error('this log does not write to a destination of its own');
  return stream as Destination;
}
