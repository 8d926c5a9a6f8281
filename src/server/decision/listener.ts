import type { RequestListener } from 'node:http';
import { createPublicServer, type ListenerLimits, type PublicServer } from '../public/listener.js';
import { createSeldom } from '../public/seldom.js';
import { readAgainWithoutUpgrade } from '../public/upgrade.js';
import { whenAnswered } from '../public/turns.js';
import { Check, type DecisionRooms, denial, type TellMistake } from './check.js';

/** Makes the listener of checks. @param rooms as they are now; a check goes through those that it began in */
export function createDecisionListener(rooms: () => DecisionRooms): RequestListener {
  const seldom = createSeldom();
  const tellMistake: TellMistake = ({ log }, { refusal, detail }) => {
    // Paths of own endpoints are the client's choice, so they are told as one.
    const suppressed = seldom(refusal === 'own_endpoint' ? refusal : detail);
    if (suppressed !== undefined)
      log.warn({ detail, suppressed }, 'a proxy asks for decisions in a way that has to be mended');
  };
  return (req, res) => new Check(rooms(), tellMistake, req, res).start();
}

/**
 * Makes the server of the decision port, on the public one's ground: the same limits and the same strictness. It never
 * changes protocols: a handshake that a proxy asks about with its `Upgrade` (Caddy) is answered as any check.
 */
export function createDecisionServer(limits: ListenerLimits, serve: RequestListener): PublicServer {
  const server: PublicServer = createPublicServer(
    limits,
    null,
    serve,
    (req, socket, rest) => {
      socket.on('error', () => socket.destroy());
      whenAnswered(socket, () => readAgainWithoutUpgrade(server, req, socket, rest));
    },
    denial,
  );
  return server;
}
