import { Exchange } from './forward-handler.js';
import type { Forward } from './forward-request.js';

/** Makes the forwarder. */
export function createForward({ sessionCookie }: { readonly sessionCookie: string }): Forward {
  return (job) => {
    const exchange = new Exchange(job, sessionCookie);
    exchange.start();
    return exchange;
  };
}
