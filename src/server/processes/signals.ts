import type { LogSink } from '../../observe/log.js';

/**
 * Drains and ends the process with 0 on SIGTERM or SIGINT; a second signal ends it at once.
 * An uncaught exception is logged, and the process drains and ends with 1: it never goes on.
 *
 * @param tasks what SIGHUP and SIGUSR2 ask for
 */
export function onSignals(
  sink: LogSink,
  drain: () => Promise<void>,
  tasks: { readonly SIGHUP?: () => void; readonly SIGUSR2?: () => void } = {},
): void {
  const { log } = sink;
  let ending = false;
  const end = (code: number): void => {
    if (ending) process.exit(code === 0 ? 1 : code);
    ending = true;
    void drain()
      .catch((error: unknown) => {
        log.error({ err: error }, 'drain failed');
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
  // Workers get them too when a whole group is signalled, and get their orders from the primary.
  process.on('SIGHUP', () => tasks.SIGHUP?.());
  process.on('SIGUSR2', () => tasks.SIGUSR2?.());
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception');
    end(1);
  });
}
