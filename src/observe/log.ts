import { pino, type DestinationStream, type Logger } from 'pino';

/** What the log understands; lower layers never log, they return reasons. */
export type Log = Logger;

/** The log of a process and the way to empty its buffer before the process ends. */
export interface LogSink {
  readonly log: Log;
  flush(): Promise<void>;
}

/**
 * JSON lines on stdout, written without blocking requests.
 *
 * @param quietRequests leave out the record of each request (level `info`), for people who watch a terminal
 */
export function createLog(quietRequests = false): LogSink {
  const destination = pino.destination({ dest: 1, sync: false });
  const log = pino(
    { level: 'info', base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime },
    quietRequests ? withoutRequests(destination) : destination,
  );
  return {
    log,
    flush: () => new Promise((resolve) => destination.flush(() => resolve())),
  };
}

function withoutRequests(destination: DestinationStream): DestinationStream {
  return {
    write: (line) => {
      if (!line.includes('"msg":"request"')) destination.write(line);
    },
  };
}
