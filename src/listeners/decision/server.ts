import type { Serve } from '../../http/exchange.js';
import type { ListenerLimits } from '../http2-connections.js';
import { createPublicServer, type PortHandlers, type PublicServer } from '../server.js';
import type { Services } from '../../pipeline/services.js';
import { CheckHandler } from './check.js';
import { createTellMistake, denial } from './handler.js';

/** Makes the listener of checks. @param services as they are now; a check ends with those that it began with */
export function createDecisionListener(services: () => Services): Serve {
  const tellMistake = createTellMistake();
  return (req, res) => {
    new CheckHandler(services(), tellMistake, req, res).handle();
  };
}

/**
 * Makes the server of the decision port, on the public one's ground: the same limits and the same strictness. It never
 * changes protocols: an `Upgrade` that a proxy passes on to its check (Caddy) is one that it asks about.
 */
export function createDecisionServer(
  limits: ListenerLimits,
  handlers: Pick<PortHandlers, 'serve' | 'unreadable' | 'fault'>,
): PublicServer {
  return createPublicServer(limits, null, { ...handlers, upgrade: null, answerOf: denial });
}
