import type { OutgoingResponse } from '../http/exchange.js';

/** Receives what happens on the client's side of an answer. */
export interface Following {
  /** It took what waited for it. */
  drained(): void;
  clientClosed(): void;
}

/** Where an answer's follower is found by the listeners below, of which all answers share one each. */
const FOLLOWER = Symbol('follower');
type Followed = OutgoingResponse & { [FOLLOWER]?: Following | undefined };

/** Sends events of the client from now on, until {@link unfollow}. */
export function follow(res: OutgoingResponse, follower: Following): void {
  (res as Followed)[FOLLOWER] = follower;
  res.on('close', onClose);
}

/** An idle connection keeps its last answer, and that would keep everything of its request. */
export function unfollow(res: OutgoingResponse): void {
  res.off('close', onClose);
  (res as Followed)[FOLLOWER] = undefined;
}

/**
 * Calls `drained` when the client took what waits for it.
 *
 * @param timeout milliseconds in which it must, or its connection ends
 * @returns the timer, to be cleared when it is over
 */
export function awaitDrain(res: OutgoingResponse, timeout: number): NodeJS.Timeout {
  res.once('drain', onDrain);
  return setTimeout(onStall, timeout, res);
}

/** Ends the connection of a whole answer when a part of it waits for its client for longer than that, in milliseconds. */
export function destroyUnlessTaken(res: OutgoingResponse, timeout: number): void {
  const timer = setTimeout(onStall, timeout, res);
  res.once('close', () => clearTimeout(timer));
}

function onClose(this: Followed): void {
  this[FOLLOWER]?.clientClosed();
}

function onDrain(this: Followed): void {
  this[FOLLOWER]?.drained();
}

function onStall(res: OutgoingResponse): void {
  res.destroy();
}
