import type { ChildProcess } from 'node:child_process';
import type { Worker as ClusterWorker } from 'node:cluster';
import { MAX_TIMER_MS } from '../../util/time.js';
import { baseUrl } from '../../listeners/server.js';
import type { Log } from '../../observe/log.js';

/** Extra time beyond `limits.drain_timeout` before a stopping worker is killed. */
const KILL_AFTER_MS = 5_000;

export interface Listeners {
  readonly ports: number;
  readonly secure: boolean;
}

/** Calls back when a worker listens on all ports, with the URLs in the order of listening. */
export function whenListening(
  worker: ClusterWorker,
  { ports, secure }: Listeners,
  listens: (urls: string[]) => void,
): void {
  const urls: string[] = [];
  worker.on('listening', ({ address, port }) => {
    urls.push(baseUrl({ address: address ?? '0.0.0.0', port }, secure && urls.length === 0));
    if (urls.length === ports) listens(urls);
  });
}

/**
 * Returns the URLs of a worker once it listens on all ports.
 * @throws Error when it ends before that: the reported one, if there is one
 */
export async function listening(
  worker: ClusterWorker,
  listeners: Listeners,
  failure: () => Error | undefined,
): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    whenListening(worker, listeners, resolve);
    worker.once('exit', () =>
      reject(failure() ?? new Error('a worker exited before it was ready; see the log for the cause')),
    );
  });
}

/**
 * Kills a worker that hangs while it starts: a replacement of the workers would wait for it.
 * @param limit milliseconds for each worker that starts: they share the processors
 */
export function killUnlessListening(
  worker: ClusterWorker,
  listeners: Listeners,
  limit: number,
  starting: () => number,
  log: Log,
): void {
  let passed = 0;
  const timer = setInterval(() => {
    passed += limit;
    if (passed < limit * starting()) return;
    log.error({ worker_pid: worker.process.pid, limit_ms: passed }, 'worker killed; not ready in time');
    worker.process.kill('SIGKILL');
  }, limit);
  const clear = (): void => clearInterval(timer);
  whenListening(worker, listeners, clear);
  worker.once('exit', clear);
}

/**
 * Ends a worker, and kills it if it does not exit in time.
 * @param endsItself whether it ends without a signal
 */
export async function endWorker(
  worker: ClusterWorker,
  endsItself: boolean,
  limit: number,
  log: Log,
): Promise<void> {
  if (worker.isDead()) return;
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  if (!endsItself) worker.process.kill('SIGTERM');
  const timer = setTimeout(
    () => {
      log.error({ worker_pid: worker.process.pid }, 'worker killed; drain timeout exceeded');
      worker.process.kill('SIGKILL');
    },
    Math.min(limit + KILL_AFTER_MS, MAX_TIMER_MS),
  );
  await exited;
  clearTimeout(timer);
}

/** A connection handle as passed by `node:cluster`. */
interface Handle {
  close(): void;
}

interface ClusterMessage {
  readonly cmd?: string;
  readonly act?: string;
  /** Sequence number of the message. */
  readonly seq?: number;
  /** Sequence number of the message that this one acknowledges. */
  readonly ack?: number;
  /** With `ack`: whether the worker accepted the connection. */
  readonly accepted?: boolean;
}

/** Delay after a worker's exit, in which its last acknowledgements are read. */
const ACK_GRACE_MS = 500;

type Send = (message: ClusterMessage, handle?: Handle, ...rest: unknown[]) => boolean;

type WorkerProcess = Omit<ChildProcess, 'send'> & { send: Send };

interface Sent {
  readonly to: WorkerProcess;
  readonly message: ClusterMessage;
  readonly handle: Handle;
}

/** Connections without an answer, by the sequence number of their message, of all workers. */
const unanswered = new Map<number, Sent>();
/** Connections that a worker returned, until `node:cluster` sends them to another one. */
const returned = new Set<Handle>();

/**
 * Passes connections that a worker had received but not accepted when it ended to another one: `node:cluster`
 * would leave them open in the primary forever (lib/internal/cluster/round_robin_handle.js). They keep their
 * sequence number, so that the worker that accepts them acknowledges them.
 * @param nextWorker returns a serving worker; undefined when there is none, then they are closed
 */
export function redistributeUnaccepted(
  worker: ClusterWorker,
  nextWorker: () => ClusterWorker | undefined,
): void {
  const child = processOf(worker);
  const { send } = child;
  child.send = (message, handle, ...rest) => {
    if (message.act === 'newconn' && message.seq !== undefined && handle !== undefined) {
      unanswered.set(message.seq, { to: child, message, handle });
      returned.delete(handle);
    }
    return send.call(child, message, handle, ...rest);
  };
  // Before `node:cluster` reads the answer and sends the connection again.
  child.prependListener('internalMessage', ({ ack, accepted }: ClusterMessage) => {
    const sent = ack === undefined ? undefined : unanswered.get(ack);
    if (ack === undefined || sent === undefined) return;
    unanswered.delete(ack);
    if (accepted === false) returned.add(sent.handle);
    if (returned.size > 0) setImmediate(closeForgotten);
  });
  worker.once('exit', () => {
    setTimeout(() => {
      for (const [number, { to, message, handle }] of unanswered) {
        if (to !== child) continue;
        unanswered.delete(number);
        const next = nextWorker();
        if (next === undefined) handle.close();
        // Without a callback, an error would end the primary. If this worker ends too, another one gets the
        // connection.
        else processOf(next).send(message, handle, undefined, () => undefined);
      }
      closeForgotten();
    }, ACK_GRACE_MS).unref();
  });
}

/** Closes returned connections once no worker is left to answer, and so to ask for them. */
function closeForgotten(): void {
  if (unanswered.size > 0) return;
  for (const handle of returned) handle.close();
  returned.clear();
}

function processOf(worker: ClusterWorker): WorkerProcess {
  return worker.process as WorkerProcess;
}
