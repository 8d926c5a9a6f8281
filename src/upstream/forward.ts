import { ForwardHandler } from './forward-handler.js';
import type { Forward } from './forward-request.js';

/** Makes the forwarder. */
export function createForward({ sessionCookie }: { readonly sessionCookie: string }): Forward {
  return (request) => {
    const handler = new ForwardHandler(request, sessionCookie);
    handler.start();
    return handler;
  };
}
