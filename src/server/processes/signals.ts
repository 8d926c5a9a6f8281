import type { LogSink } from '../../observe/log.js';

/**
 * Drains and ends the process with 0 on SIGTERM or SIGINT; a second signal ends it at once. SIGHUP reloads.
 * A fault that nobody caught is logged, and the process drains and ends with 1: it never goes on.
 */
export function onSignals(sink: LogSink, drain: () => Promise<void>, reload?: () => void): void {
  const { log } = sink;
  let ending = false;
  const end = (code: number): void => {
    if (ending) process.exit(code === 0 ? 1 : code);
    ending = true;
    void drain()
      .catch((error: unknown) => {
        log.error({ err: error }, 'the drain failed');
        code = 1;
      })
      .then(() => sink.flush())
      .finally(() => process.exit(code));
  };
  process.on('SIGTERM', () => end(0));
  // A terminal sends SIGINT to workers too, but the primary tells them what to do.
  process.on('SIGINT', () => {
    if (process.send === undefined) end(0);
  });
  // Workers get it too when a whole group is signalled, and are told by the primary what to do.
  process.on('SIGHUP', () => reload?.());
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'a fault that nobody caught');
    end(1);
  });
}
