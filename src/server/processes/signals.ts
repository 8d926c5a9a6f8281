import type { LogSink } from '../../observe/log.js';

/**
 * Installs the signal and uncaught-exception handlers of a process.
 *
 * SIGTERM or SIGINT drains the process and exits with 0; a second signal exits at once. After an
 * uncaught exception, the process logs it, drains and exits with 1; it never continues.
 *
 * @param tasks handlers of SIGHUP and SIGUSR2
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
  // A terminal sends SIGINT to workers too, but the primary decides when they end.
  process.on('SIGINT', () => {
    if (process.send === undefined) end(0);
  });
  // Workers receive these too when the whole process group is signaled, but the primary commands
  // them.
  process.on('SIGHUP', () => tasks.SIGHUP?.());
  process.on('SIGUSR2', () => tasks.SIGUSR2?.());
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception');
    end(1);
  });
}
