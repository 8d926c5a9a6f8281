import type { RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** Requests that a client may send on a connection before the first of them is answered. */
const MAX_WAITING = 100;

const TURN = Symbol('turn');

/** What goes on on a connection. */
interface Pipeline {
  /** The answer that is due now; the request before it is answered. */
  current: ServerResponse;
  /** Requests that arrived behind it. */
  waiting: number;
  /** What came behind the last of them is no request, so the connection ends with its answer. */
  ending: boolean;
}

/** A socket that requests came on. */
type Connection = Socket & { [TURN]?: Pipeline };

/**
 * Serves the requests of one connection one after the other. Clients may send several without waiting; serving them side
 * by side would let a change overtake the one before it (RFC 9112 9.3.2), and interim answers fall into the middle of another answer.
 */
export function pipelined(serve: RequestListener): RequestListener {
  return (req, res) => {
    const connection: Connection = req.socket;
    const turn = connection[TURN];
    // Its last answer is sent, or the client is gone; what was read before that still comes out of the parser.
    if (!connection.writable) return;
    // Node gives an answer its socket when those before it are sent.
    if (res.socket !== null) {
      if (turn === undefined) connection[TURN] = { current: res, waiting: 0, ending: false };
      else turn.current = res;
      serve(req, res);
    } else if (turn === undefined || turn.waiting >= MAX_WAITING) {
      connection.destroy();
    } else {
      turn.waiting += 1;
      res.once('socket', () => {
        turn.waiting -= 1;
        if (!connection.writable) return;
        turn.current = res;
        if (turn.ending) endBehind(connection, turn);
        serve(req, res);
      });
    }
  };
}

/**
 * Ends a connection at its first error, from the moment in which node's parser is gone from it, and with it whoever took care of its
 * errors, until {@link leaveErrors}. All connections share the listener: one of its own would keep the request that it was made in.
 */
export function closeAtError(connection: Duplex): void {
  connection.on('error', destroyThis);
}

/** The parser takes care of a connection's errors again. */
export function leaveErrors(connection: Duplex): void {
  connection.off('error', destroyThis);
}

function destroyThis(this: Duplex): void {
  this.destroy();
}

/** The answer that is under way on a connection; undefined when none is. */
export function answerUnderWay(connection: Duplex): ServerResponse | undefined {
  const current = (connection as Connection)[TURN]?.current;
  // Node takes the socket away from an answer when it is done with it, which is later than its last byte was written.
  return current === undefined || current.socket === null ? undefined : current;
}

/** The answer that a connection had last, whether or not it is under way; undefined before the first request. */
export function lastAnswer(connection: Duplex): ServerResponse | undefined {
  return (connection as Connection)[TURN]?.current;
}

/** Goes on when everything that a connection brought before is answered. One that ends before then is forgotten. */
export function whenAnswered(connection: Duplex, goOn: () => void): void {
  const current = answerUnderWay(connection);
  if (current === undefined) {
    goOn();
    return;
  }
  current.once('finish', () => {
    if (connection.writable) whenAnswered(connection, goOn);
  });
}

/** Lets a connection end when the requests that it brought so far are answered. */
export function endAfterAnswers(connection: Connection): void {
  const turn = connection[TURN];
  if (turn === undefined || turn.ending) return;
  turn.ending = true;
  endBehind(connection, turn);
}

function endBehind(connection: Connection, turn: Pipeline): void {
  if (turn.waiting > 0) return;
  const { current } = turn;
  if (!current.headersSent) current.shouldKeepAlive = false;
  current.once('finish', () => connection.destroySoon());
}
