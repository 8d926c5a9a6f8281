import type { MaybePromise } from '../domain/maybe-promise.js';
import type { Store } from './store.js';

/** Kinds of what is asked of a store, so that there are few of them. */
export type Operation = 'find_token' | 'find_session' | 'read' | 'write' | 'record_uses';

/**
 * Told of each operation when it is over.
 *
 * @param startedAt `performance.now()`
 * @param left whether it was waited for: it left this thread, or writes
 */
export type OnOperation = (operation: Operation, startedAt: number, failed: boolean, left: boolean) => void;

const KINDS: Readonly<Record<Exclude<keyof Store, 'begin' | 'probe' | 'probeWrite' | 'close'>, Operation>> = {
  findToken: 'find_token',
  findSession: 'find_session',
  hasLegacyKeys: 'read',
  getCustomer: 'read',
  getService: 'read',
  getUser: 'read',
  getUserByLogin: 'read',
  listCustomers: 'read',
  listServices: 'read',
  listUsers: 'read',
  listPendingDeletions: 'read',
  change: 'write',
  getPasswordCost: 'read',
  createToken: 'write',
  filterNewDigests: 'read',
  getToken: 'read',
  listTokensOfUser: 'read',
  listTokensOfCustomer: 'read',
  hasTokensOfCustomer: 'read',
  revokeTokens: 'write',
  createSession: 'write',
  listSessions: 'read',
  endSession: 'write',
  endSessionsOfUser: 'write',
  recordUses: 'record_uses',
  takeOtpStep: 'write',
  countWrite: 'write',
  getOtpStep: 'read',
  listRevokedDigests: 'read',
  addRevokedDigests: 'write',
  attemptHeldUntil: 'read',
  reserveAttempt: 'write',
  settleAttempt: 'write',
  listKnownAddresses: 'read',
  grantSudo: 'write',
  hasSudo: 'read',
  getSigningKeys: 'read',
  replaceSigningKeys: 'write',
  removeSigningKeys: 'write',
  isRestoring: 'read',
  setRestoring: 'write',
  countActiveTokens: 'read',
  removeExpired: 'write',
};

type Method = (...args: readonly unknown[]) => MaybePromise<unknown>;

/** A store whose operations are timed. It answers exactly what the inner one answers. */
export function measured(inner: Store, onOperation: OnOperation): Store {
  const methods: Record<string, Method> = {};
  for (const [name, kind] of Object.entries(KINDS)) {
    const method = (inner[name as keyof Store] as Method).bind(inner);
    methods[name] = timed(method, kind, onOperation);
  }
  return {
    ...(methods as unknown as Store),
    begin: () => inner.begin(),
    probe: () => inner.probe(),
    probeWrite: () => inner.probeWrite(),
    close: () => inner.close(),
  };
}

function timed(method: Method, kind: Operation, onOperation: OnOperation): Method {
  return (...args) => {
    const startedAt = performance.now();
    let result: MaybePromise<unknown>;
    try {
      result = method(...args);
    } catch (error) {
      onOperation(kind, startedAt, true, false);
      throw error;
    }
    if (result instanceof Promise) return settled(result, kind, startedAt, onOperation);
    onOperation(kind, startedAt, false, false);
    return result;
  };
}

function settled<T>(
  result: Promise<T>,
  kind: Operation,
  startedAt: number,
  onOperation: OnOperation,
): Promise<T> {
  return result.then(
    (value) => {
      onOperation(kind, startedAt, false, true);
      return value;
    },
    (error: unknown) => {
      onOperation(kind, startedAt, true, true);
      throw error;
    },
  );
}
