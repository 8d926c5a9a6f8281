// src/server/stores: opens the configured store, with its cache.
// May import what server may.
// `openStore` is for servers and commands.

import { join } from 'node:path';
import { DirectoryApplier } from '../../accounts/directory.js';
import { localHasher, Passwords } from '../../accounts/passwords.js';
import { loadSealingKey, Sealer } from '../../accounts/sealing.js';
import { configHash } from '../../config/mask.js';
import type { LoadedConfig } from '../../config/load.js';
import type { Config } from '../../config/schema/config.js';
import { type AuditLog, type AuditProcess, openAuditLog } from '../../observe/audit.js';
import type { Log } from '../../observe/log.js';
import { openHashing } from '../processes/hashing.js';
import { Endings } from '../../store/endings.js';
import type { Store, Maintenance } from '../../store/core/store.js';
import { subscriptionsOf } from '../../webhooks/endpoint.js';

/**
 * Shortest timeout of a query in a command of the command line, milliseconds: nobody waits but the operator.
 */
const OPERATOR_TIMEOUT_MS = 5_000;
/** Records that stay decoded in a command, which reads most of them once. */
const REMEMBERED = 1_000;

export interface OpenedStore {
  readonly store: Store;
  /** What ended in the store, by any process; only serving processes receive it. */
  readonly endings: Endings;
  readonly passwords: Passwords;
  readonly sealer: Sealer;
  readonly directory: DirectoryApplier;
  readonly audit: AuditLog;
  close(): Promise<void>;
}

/** A server process, as the store needs to know it. */
export interface ServerProcess {
  readonly log: Log;
  readonly audit: AuditProcess;
  /** Whether the process serves requests. A networked store then gets a cache. */
  readonly serves: boolean;
}

/** @param server absent in commands, which have no log */
export async function openStore(loaded: LoadedConfig, server?: ServerProcess): Promise<OpenedStore> {
  const { config } = loaded;
  const audit = openAuditLog(config.audit, server?.audit ?? auditOfCommand(loaded));
  const endings = new Endings();
  const { store, close } = await openConfiguredStore(config, endings, server);
  store.webhooks.subscribe(subscriptionsOf(config));
  const { max_concurrent_hashes: concurrency } = config.login;
  const hashing = server?.serves === true ? openHashing(concurrency, server.log) : null;
  const passwords = new Passwords(hashing ?? localHasher, concurrency);
  const sealer = new Sealer(sealingKey(config));
  return {
    store,
    endings,
    passwords,
    sealer,
    // A separate queue, so that logins by strangers cannot delay the check of a reload.
    directory: new DirectoryApplier(store, { passwords: new Passwords(localHasher, 1), sealer }),
    audit,
    close: async () => {
      audit.close();
      hashing?.close();
      await close();
    },
  };
}

function auditOfCommand(loaded: LoadedConfig): AuditProcess {
  let hash: string | undefined;
  return {
    configHash: () => (hash ??= configHash(loaded)),
    onFailure: (error) => {
      // Where entries are required, the command itself fails with this message.
      if (!loaded.config.audit.required)
        process.stderr.write(`the audit log cannot be written: ${(error as Error).message}\n`);
    },
  };
}

function sealingKey({ store }: Config): Buffer | null {
  if (store.type === 'lmdb') return loadSealingKey(join(store.path, 'sealing.key'));
  return store.sealing_key === null ? null : Buffer.from(store.sealing_key, 'hex');
}

async function openConfiguredStore(
  config: Config,
  endings: Endings,
  server: ServerProcess | undefined,
): Promise<{ store: Store; close: () => Promise<void> }> {
  // Each takes long to load, and only one of them is needed.
  if (config.store.type === 'lmdb') {
    const { openLmdbStore } = await import('../../store/lmdb.js');
    const { path, min_free: minFree } = config.store;
    const serving = server?.serves === true ? endings : undefined;
    const store = openLmdbStore(path, minFree, serving, server === undefined ? REMEMBERED : undefined);
    return { store, close: () => store.maintenance.close() };
  }
  const { command_timeout: configured } = config.store;
  const timeout = server === undefined ? Math.max(configured, OPERATOR_TIMEOUT_MS) : configured;
  const user = server === undefined ? 'command' : server.serves ? { ...server, endings } : 'supervisor';
  // A server starts without its store, and initializes it later.
  if (config.store.type === 'postgres') {
    const { openPostgres } = await import('./postgres-store.js');
    return openPostgres(config, { ...config.store, command_timeout: timeout }, user);
  }
  const { openRedis } = await import('./redis-store.js');
  return openRedis(config, { ...config.store, command_timeout: timeout }, user);
}

/** Minimum time between probes: everybody may ask at the public port. */
const INTERVAL_MS = 500;
/** Minimum time between write probes. More frequent checks get the result of the last one. */
const WRITE_INTERVAL_MS = 3_000;

/** @param toleratedMs as {@link servedFromCacheMs} returns it */
export function createStoreReadiness(
  store: Pick<Maintenance, 'probe' | 'probeWrite'>,
  toleratedMs: number,
): () => Promise<{ readonly fault: string | null; readonly isReady: boolean }> {
  let readyAt = -Infinity;
  const probeWrite = atMostEvery(WRITE_INTERVAL_MS, async () => store.probeWrite());
  return atMostEvery(INTERVAL_MS, async () => {
    try {
      await store.probe();
      await probeWrite();
      readyAt = performance.now();
      return { fault: null, isReady: true };
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      const isReady = performance.now() - readyAt <= toleratedMs;
      return { fault: isReady ? `${fault}; recently used tokens are served from the cache` : fault, isReady };
    }
  });
}

function atMostEvery<T>(interval: number, work: () => Promise<T>): () => Promise<T> {
  let startedAt = -Infinity;
  let latest: Promise<T>;
  return async () => {
    if (performance.now() - startedAt >= interval) {
      startedAt = performance.now();
      latest = work();
    }
    return latest;
  };
}

/**
 * Returns how long requests are served from the cache without the store, in milliseconds; the embedded one
 * has none.
 */
export function servedFromCacheMs({
  store,
  cache,
  on_store_failure: onFailure,
}: Pick<Config, 'store' | 'cache' | 'on_store_failure'>): number {
  const hasCache = store.type !== 'lmdb' && cache.size > 0;
  return hasCache && onFailure !== 'deny' ? onFailure.serve_cached_for : 0;
}
