import { performance } from 'node:perf_hooks';
import type { MaybePromise } from '../util/async.js';
import type { Store } from './store.js';

type Operation = 'find_token' | 'find_session' | 'read' | 'write' | 'record_uses';

/**
 * @param startedAt `performance.now()`
 * @param isAsync whether it returned a promise: it left this thread or was a write
 */
export type OnOperation = (
  operation: Operation,
  startedAt: number,
  failed: boolean,
  isAsync: boolean,
) => void;

const KINDS: { readonly [P in keyof Store]: Readonly<Record<keyof Store[P], Operation | null>> } = {
  tokens: {
    find: 'find_token',
    get: 'read',
    getWithOwner: 'read',
    family: 'read',
    listOfUser: 'read',
    listOfCustomer: 'read',
    customerHasAtLeast: 'read',
    countActive: 'read',
    listExpiring: 'read',
    claimWarnings: 'write',
    create: 'write',
    rotate: 'write',
    countInOverlap: 'read',
    claimEndedOverlaps: 'write',
    finishOverlaps: 'write',
    update: 'write',
    revoke: 'write',
    hasLegacyKeys: 'read',
    filterNewDigests: 'read',
    listDeclared: 'read',
    filterRevoked: 'read',
    listRevokedDigests: 'read',
    addRevokedDigests: 'write',
  },
  sessions: {
    find: 'find_session',
    listOfUser: 'read',
    create: 'write',
    end: 'write',
    endOfUser: 'write',
    noteLogouts: 'write',
    grantSudo: 'write',
    hasSudo: 'read',
  },
  directory: {
    getCustomer: 'read',
    getService: 'read',
    getUser: 'read',
    getUserByLogin: 'read',
    listCustomers: 'read',
    listServices: 'read',
    listUsers: 'read',
    listPendingDeletions: 'read',
    getPasswordCost: 'read',
    change: 'write',
  },
  loginThrottle: { blockedUntil: 'read', reserve: 'write', settle: 'write', listKnownAddresses: 'read' },
  usage: {
    recordUses: 'record_uses',
    takeOtpStep: 'write',
    getOtpStep: 'read',
    countWrite: 'write',
    leaseRate: 'write',
  },
  signingKeys: { get: 'read', replace: 'write', remove: 'write' },
  fleet: { beat: null, list: null, leave: null, ask: null, answer: null, answers: null },
  webhooks: {
    subscribe: null,
    queueLocked: 'write',
    acquire: 'write',
    release: 'write',
    queueExpired: 'write',
    listDue: 'read',
    settle: 'write',
    keep: 'write',
    status: 'read',
    listDead: 'read',
    resend: 'write',
  },
  maintenance: {
    initialize: null,
    isRestoring: 'read',
    setRestoring: 'write',
    leaveMark: null,
    hasMark: null,
    probe: null,
    probeWrite: null,
    clock: 'read',
    removeExpired: 'write',
    removeDamaged: 'write',
    close: null,
  },
};

type Method = (...args: readonly unknown[]) => MaybePromise<unknown>;
type Part = Readonly<Record<string, Method>>;

export function measured(inner: Store, onOperation: OnOperation): Store {
  const parts = Object.entries(KINDS).map(([name, kinds]) => [
    name,
    measuredPart(inner[name as keyof Store] as unknown as Part, kinds, onOperation),
  ]);
  return Object.fromEntries(parts) as Store;
}

function measuredPart(
  inner: Part,
  kinds: Readonly<Record<string, Operation | null>>,
  onOperation: OnOperation,
): Part {
  const methods = Object.entries(inner).map(([name, method]) => {
    const kind = kinds[name] ?? null;
    return [name, kind === null ? method : timed(method, kind, onOperation)];
  });
  return Object.fromEntries(methods) as Part;
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
