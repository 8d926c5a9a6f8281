import type { Add } from './fault.js';
import type { Config } from './schema/config.js';
import { decisionAddresses } from './schema/listen.js';

/** Two listeners can't have one port of one address. */
export function checkListeners({ listen, admin, decision }: Config, add: Add): void {
  const { http, grpc } = decisionAddresses(decision);
  const listeners = Object.entries({ listen, admin, decision: http, 'decision.grpc': grpc }).flatMap(
    ([name, listener]) => (listener === null || listener.port === 0 ? [] : [{ name, ...listener }]),
  );
  listeners.forEach((one, i) => {
    const other = listeners
      .slice(0, i)
      .find((each) => each.port === one.port && overlap(each.host, one.host));
    if (other !== undefined)
      add(
        [...one.name.split('.'), 'port'],
        `${one.name}.port: is the port of ${other.name} already; choose another`,
      );
  });
}

const EVERY_ADDRESS: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

function overlap(a: string, b: string): boolean {
  return a === b || EVERY_ADDRESS.has(a) || EVERY_ADDRESS.has(b);
}
