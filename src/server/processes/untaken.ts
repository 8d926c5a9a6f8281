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
 * Closes the connections that a worker was given and had not taken when it ended. `node:cluster` forgets them in the primary,
 * open: their clients would wait for ever (lib/internal/cluster/round_robin_handle.js drops its callback with the worker).
 */
export function closeUntaken(worker: ClusterWorker): void {
  const given = new Map<number, Handle>();
  const child = worker.process as Omit<ChildProcess, 'send'> & { send: Send };
  const { send } = child;
  child.send = (message, handle, ...rest) => {
    if (message.act === 'newconn' && message.seq !== undefined && handle !== undefined)
      given.set(message.seq, handle);
    return send.call(child, message, handle, ...rest);
  };
  child.on('internalMessage', ({ ack }: ClusterMessage) => {
    if (ack !== undefined) given.delete(ack);
  });
  worker.once('exit', () => {
    setTimeout(() => {
      for (const handle of given.values()) handle.close();
    }, LAST_ANSWERS_MS).unref();
  });
}
