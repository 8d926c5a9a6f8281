import { pino, type Logger } from 'pino';
import { type Destination, openStdout } from './destination.js';

/** Under which a log keeps the hash of the configuration that its lines name. Logs that are derived from it have it as well. */
const CONFIG_HASH = Symbol('config hash');

/** What the log understands; lower layers never log, they return reasons. */
export type Log = Logger & { [CONFIG_HASH]?: string };

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

/** The part of a configuration that its log depends on. */
export interface LogSettings {
  /** Lines below it are not written. */
  readonly level: string;
  /** Each line names it. */
  readonly configHash: string;
}

/** JSON lines on stdout. They are never waited for: what nobody takes is given up and counted. */
export function createLog(settings: LogSettings): LogSink {
  const destination = openStdout();
  return {
    log: logTo(destination, settings),
    print: (text) => destination.write(text),
    flush: () => destination.flush(),
  };
}

/** A log that writes its lines there. */
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

/** The process runs another configuration: its log has that one's level and names it. */
export function useSettings(log: Log, { level, configHash }: LogSettings): void {
  log.level = level;
  log[CONFIG_HASH] = configHash;
}

/** The same log for what belongs to one configuration, whichever the process runs by then. */
export function logFor(log: Log, settings: LogSettings): Log {
  const own: Log = log.child({});
  useSettings(own, settings);
  return own;
}

/** The hash of the configuration that the lines of a log name. */
export function configHashOf(log: Log): string | undefined {
  return log[CONFIG_HASH];
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
