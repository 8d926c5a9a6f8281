import type { Refusal } from '../domain/refusal.js';
import type { RequestHead } from '../http/head.js';
import type { Route } from '../policy/route.js';

/**
 * Refuses the script of a service worker, unless its route allows one.
 *
 * A service worker of the guarded application sees each request of its origin, also those of Latchkey's page:
 * passwords, and the secret of a new token.
 */
export function refuseServiceWorker(head: RequestHead, route: Route): Refusal | undefined {
  if (!head.serviceWorker || route.allowsServiceWorker) return undefined;
  return {
    refusal: 'service_worker',
    detail:
      'Scripts of service workers are not served here; a route can allow them with service_worker: allow',
  };
}
