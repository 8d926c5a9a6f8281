import cluster from 'node:cluster';

// Every process imports this module before any other: a signal may arrive while the others are loaded.

/** Commands that serve until a signal ends them. */
const SERVING: ReadonlySet<string> = new Set(['serve', 'demo']);
const HELD = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

const received = new Set<NodeJS.Signals>();

/** Sends the signals that arrived during the start to the handlers that are installed by now. */
export function releaseSignals(): void {
  for (const signal of HELD) process.off(signal, hold);
  process.nextTick(() => {
    for (const signal of received) process.emit(signal, signal);
  });
}

export function isEnd(signal: NodeJS.Signals): boolean {
  // A terminal sends SIGINT to workers too, but the primary decides when they end.
  return signal === 'SIGTERM' || (signal === 'SIGINT' && !cluster.isWorker);
}

/** A start that is given up leaves nothing behind. One of a worker is the primary's to give up. */
function hold(signal: NodeJS.Signals): void {
  if (isEnd(signal) && !cluster.isWorker) process.exit(0);
  received.add(signal);
}

// Node.js would open its debugger, where every local user could run code in this process.
process.on('SIGUSR1', () => undefined);

const command = process.argv.slice(2).find((word) => !word.startsWith('-'));
if (command !== undefined && SERVING.has(command)) for (const signal of HELD) process.on(signal, hold);
