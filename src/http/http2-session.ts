import type { Http2Session } from 'node:http2';

/**
 * Makes a session that is destroyed between reads of its connection, never within one, by node either. Node destroys it for a
 * wrong frame in the middle of a read: a frame is leaked, and the process aborts at the next collection with
 * `current_nghttp2_memory_ == 0` (Node 20.20.2, `Http2Session::OnStreamAfterWrite`).
 *
 * @param doomed called at once when it is to be destroyed
 */
export function destroyBetweenReads(session: Http2Session, doomed?: () => void): void {
  const destroy = session.destroy.bind(session);
  session.destroy = (...args: Parameters<typeof destroy>) => {
    const [error] = args;
    doomed?.();
    if (error instanceof Error) releaseFrames(error);
    setImmediate(destroy, ...args);
  };
}

/**
 * Lets go of the functions and receivers that an error was made in. V8 keeps them until the stack is read for the first time,
 * and one of them is node's native session. Settings that the client never acknowledges keep the session, which keeps its
 * socket, which keeps the error that ended it: a circle through native memory, which no collection sees (22 KiB for each
 * such connection, Node 20 and 26).
 */
function releaseFrames(error: Error): void {
  void error.stack;
}
