import type { ChildProcess } from 'node:child_process';
import type { Worker as ClusterWorker } from 'node:cluster';

/** A connection handle as passed by `node:cluster`. */
interface Handle {
  /** Safe to call more than once. */
  close(): void;
}

/** An internal message about a connection between `node:cluster` and a worker. */
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

/**
 * Delay after a worker's exit, in which its last acknowledgements are read. Node.js emits no
 * `disconnect` at that point if the worker was killed.
 */
const ACK_GRACE_MS = 500;

/** Sequence number of the last message with a connection. */
const lastSent = new WeakMap<Handle, number>();

type Send = (message: ClusterMessage, handle?: Handle, ...rest: unknown[]) => boolean;

/**
 * Passes connections that a worker had received but not accepted when it ended to another worker.
 *
 * `node:cluster` leaves them open in the primary, so their clients would wait forever
 * (lib/internal/cluster/round_robin_handle.js calls back only when a worker answers, and this one
 * no longer does). They are sent again with the same sequence number, and the worker that accepts
 * them acknowledges them. It also keeps those that the last worker returned after it closed its
 * port, because no other worker asks for them. These are closed.
 *
 * @param nextWorker returns a serving worker; undefined when there is none, then they are closed
 */
export function redistributeUnaccepted(
  worker: ClusterWorker,
  nextWorker: () => ClusterWorker | undefined,
): void {
  const unacknowledged = new Map<number, { readonly message: ClusterMessage; readonly handle: Handle }>();
  const child = processOf(worker);
  const { send } = child;
  child.send = (message, handle, ...rest) => {
    if (message.act === 'newconn' && message.seq !== undefined && handle !== undefined) {
      unacknowledged.set(message.seq, { message, handle });
      lastSent.set(handle, message.seq);
    }
    return send.call(child, message, handle, ...rest);
  };
  child.on('internalMessage', ({ ack, accepted }: ClusterMessage) => {
    if (ack === undefined) return;
    const handle = unacknowledged.get(ack)?.handle;
    unacknowledged.delete(ack);
    // `node:cluster` has read the answer by now, and sent the connection to another worker if any.
    const isReturned = accepted === false && handle !== undefined && lastSent.get(handle) === ack;
    if (isReturned && nextWorker() === undefined) handle.close();
  });
  worker.once('exit', () => {
    setTimeout(() => {
      for (const { message, handle } of unacknowledged.values()) {
        const next = nextWorker();
        if (next === undefined) handle.close();
        else processOf(next).send(message, handle);
      }
    }, ACK_GRACE_MS).unref();
  });
}

function processOf(worker: ClusterWorker) {
  return worker.process as Omit<ChildProcess, 'send'> & { send: Send };
}
