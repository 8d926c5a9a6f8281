// src/server/processes: the workers, the process that supervises them, signals.
// May import what server may.
// `startWorker` opens the ports.

import { KeySets } from '../../accounts/jwt/issuers.js';
import type { LoadedConfig } from '../../config/load.js';
import { configHash, logSettings } from '../../config/mask.js';
import { decisionAddresses } from '../../config/schema/listen.js';
import {
  createPublicServer,
  limitConnections,
  listen,
  type PortHandlers,
  type PublicServer,
} from '../../listeners/server.js';
import { createDecisionListener, denial } from '../../listeners/decision/check.js';
import { createRequestListener, refusalOutside } from '../../listeners/http.js';
import { createUpgradeListener } from '../../listeners/websocket.js';
import { useSettings } from '../../observe/log.js';
import { watchAddresses } from '../../observe/metrics.js';
import { readUpstreamLoads } from '../../observe/metrics/requests.js';
import type { ShadowDifferences } from '../../pipeline/shadow.js';
import { StreamRevalidator } from '../../pipeline/streams.js';
import { type UnreadableInput, recordUnreadable } from '../../pipeline/access-log.js';
import { createMembership, nameOf } from '../fleet.js';
import { loadModules, type ServerParts } from './process.js';
import { createRuntime, type Runtime } from '../runtime.js';
import { shadowDifferencesOf } from '../shadow.js';
import { createStoreReadiness, servedFromCacheMs } from '../stores/open-store.js';
import { subscriptionsOf } from '../../webhooks/endpoint.js';

/** Minimum lifetime of replaced services, milliseconds: requests still being authorized need them. */
const AUTHORIZING_MS = 5_000;

export type Worker = Awaited<ReturnType<typeof startWorker>>;

/** Serves the public port and the decision ports. */
export async function startWorker(loaded: LoadedConfig, { opened, sink: { log }, tracing }: ServerParts) {
  const keySets = new KeySets();
  const { store, endings } = opened;
  const { port } = loaded.config.listen;
  const member = createMembership(store.fleet, endings, log, configHash(loaded), port, () =>
    streams.settled(),
  );
  const readiness = createStoreReadiness(store.maintenance, servedFromCacheMs(loaded.config));
  const isReady = async () => !serving.isDraining && (await readiness()).isReady;
  const runtimeOf = (each: LoadedConfig, differences: ShadowDifferences | null): Runtime =>
    createRuntime(each, opened, log, tracing, member.known, undefined, keySets, differences, isReady);
  let differences = shadowDifferencesOf(loaded, null);
  let runtime = runtimeOf(loaded, differences);
  const serving = { services: runtime.services, isDraining: false };
  /** Replaced configurations whose last uses are not written yet. */
  const retiring = new Set<Runtime>();
  watchAddresses(() => runtime.upstreams.addressStates());
  readUpstreamLoads(() => runtime.upstreams.loads());
  let closed = false;
  const fault = (error: unknown): void => log.error({ err: error }, 'listener failed; connection closed');
  const streams = new StreamRevalidator(
    () => runtime.streamRecheck,
    (head, now) => runtime.recheck(head, now),
    fault,
  );
  endings.on('ended', (what) => streams.ended(what));
  await member.join();
  const { limits, listen: address } = loaded.config;
  const { http: decisionAddress, grpc: grpcAddress } = decisionAddresses(loaded.config.decision);
  const unreadable = (input: UnreadableInput): void => recordUnreadable(serving.services.accessLog, input);
  const handlers: PortHandlers = {
    serve: createRequestListener(serving, streams),
    upgrade: createUpgradeListener(serving, streams),
    unreadable,
    fault,
    answerOf: (refusal, req) => refusalOutside(serving.services, refusal, req),
    isProxy: (peer) => runtime.isTrustedProxy(peer),
  };
  const server = createPublicServer(limits, loaded.certificate, handlers, address.h2c);
  const decision =
    decisionAddress === null
      ? null
      : createPublicServer(limits, null, {
          serve: createDecisionListener(serving),
          // An `Upgrade` that a proxy passes on to its check (Caddy) belongs to the request it is about.
          upgrade: null,
          unreadable,
          fault,
          answerOf: denial,
        });
  // The gRPC library is loaded only where it is used.
  const grpcModule = grpcAddress && (await import('../../listeners/decision/grpc/server.js'));
  const grpc = grpcModule && grpcModule.createGrpcServer(limits, serving, fault);
  const servers = [server, decision, grpc].filter((each) => each !== null);
  limitConnections(servers, limits.connections, log);
  // All workers must listen in this order: ports that the system picks are shared by request order.
  const listenToAll = async () => ({
    url: await listen(server, address, 'listen'),
    decisionUrl: decision && decisionAddress && (await listen(decision, decisionAddress, 'decision')),
    grpcUrl: grpc && grpcAddress && (await listen(grpc, grpcAddress, 'decision.grpc')),
  });
  const urls = await listenToAll().catch(async (error: unknown) => {
    // It never serves, so no receipt may wait for it.
    await member.leave();
    throw error;
  });
  const { url } = urls;
  member.update({ name: nameOf(url.slice(url.lastIndexOf(':') + 1)) });
  const settle = async (old: Runtime): Promise<void> => {
    if (retiring.delete(old)) await old.closeAccounts();
  };
  return {
    ...urls,
    /** Decisions that the shadow policy would change; empty without one. */
    casualties: async () => (differences === null ? [] : [differences.counts()]),
    /** Builds everything that another configuration needs. `commit` makes it take over. */
    prepare: async (next: LoadedConfig) => {
      const nextDifferences = shadowDifferencesOf(next, differences);
      const prepared = runtimeOf(next, nextDifferences);
      // An error is reported by the first request that needs the module.
      loadModules(next.config).catch(() => undefined);
      return {
        commit: async () => {
          if (closed) return prepared.close();
          const old = runtime;
          retiring.add(old);
          old.upstreams.stopChecks();
          setTimeout(() => void settle(old), AUTHORIZING_MS).unref();
          runtime = prepared;
          serving.services = prepared.services;
          differences = nextDifferences;
          keySets.reload(next.config.jwt_issuers);
          member.update({ configHash: configHash(next) });
          opened.store.webhooks.subscribe(subscriptionsOf(next.config));
          useSettings(log, logSettings(next));
          if (next.certificate !== null) server.useCertificate?.(next.certificate);
        },
        abort: prepared.close,
      };
    },
    drain: async () => {
      serving.isDraining = true;
      await Promise.all(servers.map(async (each) => closeServer(each, limits.drain_timeout)));
      closed = true;
      streams.close();
      await member.leave();
      await Promise.all([...Array.from(retiring, settle), runtime.close()]);
    },
  };
}

const IDLE_SWEEP_MS = 50;
/**
 * How long idle connections stay open during a drain, milliseconds: a request already on its way still gets
 * its response, which tells the client to reconnect next time (RFC 9112 9.6).
 */
const IDLE_GRACE_MS = 1_000;

/**
 * Closes a server, its idle connections after a moment, and the others after their requests.
 * @param timeout milliseconds after which all connections are closed
 */
async function closeServer(server: PublicServer, timeout: number): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  // A connection that becomes idle after its last response would stay until its keep-alive timeout.
  let sweep: NodeJS.Timeout | undefined;
  // In a busy process, the timer may fire before received data is read. Such a connection is not idle.
  const closeIdle = (): void => void setImmediate(() => server.closeIdleConnections());
  const grace = setTimeout(() => {
    closeIdle();
    sweep = setInterval(closeIdle, IDLE_SWEEP_MS);
  }, IDLE_GRACE_MS);
  const limit = setTimeout(() => server.closeAllConnections(), timeout);
  for (const socket of server.tunnels) socket.destroy();
  await closed;
  clearTimeout(grace);
  clearInterval(sweep);
  clearTimeout(limit);
}
