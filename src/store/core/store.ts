import type { Store } from '../store.js';
import { directoryStore } from './directory.js';
import { Events } from './events.js';
import { fleetStore } from './fleet.js';
import type { Kv } from './kv.js';
import { maintenance } from './maintenance.js';
import { sessionStore } from './sessions.js';
import { loginThrottleStore } from './throttle.js';
import { Tokens } from './tokens.js';
import { Transactor } from './transaction.js';
import { signingKeyStore, usageStore } from './usage.js';
import { webhookStore } from './webhooks.js';

export function coreStore(kv: Kv, events = new Events()): Store {
  const transactor = new Transactor(kv);
  return {
    tokens: new Tokens(transactor, events).store(),
    sessions: sessionStore(transactor),
    directory: directoryStore(transactor, events),
    loginThrottle: loginThrottleStore(transactor),
    usage: usageStore(transactor),
    signingKeys: signingKeyStore(transactor),
    fleet: fleetStore(transactor),
    webhooks: webhookStore(transactor, events),
    maintenance: maintenance(transactor, events),
  };
}
