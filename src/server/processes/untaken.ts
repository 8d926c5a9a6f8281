import type { ChildProcess } from 'node:child_process';
import type { Worker as ClusterWorker } from 'node:cluster';

/** A connection as `node:cluster` hands it over. */
interface Handle {
  /** May be called again. */
  close(): void;
}

/** What `node:cluster` and a worker tell each other about a connection. */
interface ClusterMessage {
  readonly cmd?: string;
  readonly act?: string;
  /** Number of the message. */
  readonly seq?: number;
  /** Number of the message that this one answers. */
  readonly ack?: number;
}

/** A worker's last answers are read a moment after it ended. Of one that was killed, Node.js tells no `disconnect` then. */
const LAST_ANSWERS_MS = 500;

type Send = (message: ClusterMessage, handle?: Handle, ...rest: unknown[]) => boolean;

/**
 * Gives the connections that a worker was given and had not taken when it ended to another one. `node:cluster` forgets them in
 * the primary, open: their clients would wait for ever (lib/internal/cluster/round_robin_handle.js calls back when a worker
 * answers, and this one no longer does). Sent once more with their number, they are answered for by whoever takes them.
 *
 * @param another a worker that serves; undefined when there is none, then they are closed
 */
export function passOnUntaken(worker: ClusterWorker, another: () => ClusterWorker | undefined): void {
  const given = new Map<number, { readonly message: ClusterMessage; readonly handle: Handle }>();
  const child = processOf(worker);
  const { send } = child;
  child.send = (message, handle, ...rest) => {
    if (message.act === 'newconn' && message.seq !== undefined && handle !== undefined)
      given.set(message.seq, { message, handle });
    return send.call(child, message, handle, ...rest);
  };
  child.on('internalMessage', ({ ack }: ClusterMessage) => {
    if (ack !== undefined) given.delete(ack);
  });
  worker.once('exit', () => {
    setTimeout(() => {
      for (const { message, handle } of given.values()) {
        const next = another();
        if (next === undefined) handle.close();
        else processOf(next).send(message, handle);
      }
    }, LAST_ANSWERS_MS).unref();
  });
}

function processOf(worker: ClusterWorker) {
  return worker.process as Omit<ChildProcess, 'send'> & { send: Send };
}
