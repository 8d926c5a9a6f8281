import type { RequestListener } from 'node:http';
import type { ListenerLimits } from '../http2-connections.js';
import { createPublicServer, type FaultListener } from '../server.js';
import type { PublicServer } from '../tls.js';
import { createLogThrottle } from '../../observe/log-throttle.js';
import type { Services } from '../../pipeline/services.js';
import { CheckHandler, denial, type TellMistake } from './check.js';

/** Makes the listener of checks. @param services as they are now; a check ends with those that it began with */
export function createDecisionListener(services: () => Services): RequestListener {
  const throttle = createLogThrottle();
  const tellMistake: TellMistake = ({ log }, { refusal, detail }) => {
    // Paths of built-in endpoints are the client's choice, so they count as one.
    const suppressed = throttle(refusal === 'own_endpoint' ? refusal : detail);
    if (suppressed !== undefined) log.warn({ detail, suppressed }, 'misconfigured forward-auth proxy');
  };
  return (req, res) => {
    // Node drops what came behind such a head at once, so nothing more is read on the connection.
    if (req.headers.upgrade !== undefined) res.shouldKeepAlive = false;
    new CheckHandler(services(), tellMistake, req, res).handle();
  };
}

/**
 * Makes the server of the decision port, on the public one's ground: the same limits and the same strictness. It never
 * changes protocols: an `Upgrade` that a proxy passes on to its check (Caddy) is one that it asks about.
 */
export function createDecisionServer(
  limits: ListenerLimits,
  serve: RequestListener,
  fault: FaultListener,
): PublicServer {
  return createPublicServer(limits, null, serve, null, fault, denial);
}
