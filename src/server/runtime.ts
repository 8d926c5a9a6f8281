import { BackOff } from '../accounts/back-off.js';
import { HttpAccounts } from '../accounts/http-accounts.js';
import { LastSeen } from '../accounts/last-seen.js';
import { Logins } from '../accounts/login.js';
import { OneTimePasswords } from '../accounts/one-time-passwords.js';
import { Sessions } from '../accounts/sessions.js';
import { StoredAccounts } from '../accounts/stored-accounts.js';
import { Tokens } from '../accounts/tokens.js';
import { WriteLimit } from '../accounts/write-limit.js';
import type { LoadedConfig } from '../config/load.js';
import { compilePolicy } from '../config/policy.js';
import { defaultUpstream, vendorNames } from '../config/derived.js';
import { whenReady } from '../domain/awaitable.js';
import { endpointHandlers } from '../endpoints/endpoints.js';
import { loginHandler, logoutHandler } from '../endpoints/login.js';
import { PageEndpoints } from '../endpoints/page.js';
import { readPageFiles } from '../endpoints/page-files.js';
import { SessionEndpoints } from '../endpoints/sessions.js';
import { TokenEndpoints } from '../endpoints/tokens.js';
import { Authenticator } from '../gate/authenticate.js';
import { Gate } from '../gate/gate.js';
import { Ownership } from '../gate/ownership.js';
import { createClientReader } from '../http/client-address.js';
import { createHeadReader } from '../http/read-head.js';
import type { Log } from '../observe/log.js';
import { countLogin } from '../observe/metrics.js';
import type { UpstreamLoad } from '../observe/metrics/requests.js';
import { countLastSeenFailure } from '../observe/metrics/store.js';
import type { Tracing } from '../observe/tracing.js';
import { createForward } from '../proxy/forward.js';
import { createOutbound } from '../proxy/outbound.js';
import { createUpstreams, type Upstream } from '../proxy/upstreams.js';
import { createUpgrade, type Upgrade } from '../proxy/upgrade.js';
import { AccessLog } from './public/access-log.js';
import { Auditor, policyVersion } from './public/auditor.js';
import { createFaultLog } from './public/fault-log.js';
import type { House } from './public/request.js';
import type { Recheck } from './public/streams.js';
import type { StoreRoom } from './stores/store-room.js';

/** Everything that serves requests in one process. */
export interface Runtime {
  readonly house: House;
  readonly upgrade: Upgrade;
  /** Judges again what lasts. */
  readonly recheck: Recheck;
  /** Milliseconds (`proxy.stream_recheck`). */
  readonly streamRecheck: number;
  /** Requests that it forwards now. */
  pending(): number;
  /** What is on its way to each upstream. */
  loads(): readonly UpstreamLoad[];
  /** Writes last uses down and closes the connections to the upstreams. The store is closed by who opened it. */
  close(): Promise<void>;
}

/** Puts the rooms together. It is the only place that does. */
export function createRuntime(
  { config, lines }: LoadedConfig,
  { store, passwords, sealer, audit }: StoreRoom,
  log: Log,
  tracing?: Tracing,
): Runtime {
  const logFault = createFaultLog(log);
  const names = vendorNames(config.interface);
  const { router, policy } = compilePolicy(config, lines);
  const lastSeen = new LastSeen(
    store,
    config.tokens.last_seen_interval,
    config.sessions.idle_timeout,
    (error: unknown) => {
      countLastSeenFailure();
      logFault(error, 'last uses could not be written and are kept for the next try');
    },
  );
  const sessions = new Sessions(store, lastSeen, config.sessions);
  const tokens = new Tokens(store, lastSeen, config.tokens, (name) => policy.hasScope(name));
  const { ui } = config.interface;
  const { http } = config.directory;
  const source = http === null ? null : new HttpAccounts(store, http);
  const accounts = source ?? new StoredAccounts(store, passwords, new OneTimePasswords(store, sealer));
  const logins = new Logins(accounts, new BackOff(store, config.login), countLogin);
  const ownership = new Ownership(tokens, policy);
  const { writes_per_hour: perHour } = config.rate_limit;
  const upstreams = createUpstreams(config.upstreams);

  const gate = new Gate({
    router,
    policy,
    authenticator: new Authenticator(store, sessions),
    ownership,
    lastSeen,
    tokens,
    writeLimit: perHour === null ? null : new WriteLimit(store, perHour),
  });
  const lasting = gate.forLasting();

  const house: House = {
    bodyLimits: config.limits,
    readHead: createHeadReader(
      { key: names.key.toLowerCase(), otp: names.otp.toLowerCase(), sessionCookie: names.sessionCookie },
      config.limits,
      createClientReader(config.listen.trusted_proxies),
    ),
    gate,
    endpoints: endpointHandlers(
      loginHandler(logins, sessions, store, names.sessionCookie),
      logoutHandler(sessions, names.sessionCookie),
      new TokenEndpoints(tokens, logins, ownership),
      new SessionEndpoints(sessions),
      new PageEndpoints(ui.enabled ? readPageFiles(names.otp) : null, store, policy, {
        path: ui.path,
        keyName: names.key,
        scopes: config.policy.scopes,
        maxLifetime: config.tokens.max_lifetime,
        idleTimeout: config.sessions.idle_timeout,
      }),
    ),
    outbound: createOutbound({
      protectedNames: Object.values(config.identity.headers).filter((name) => name !== null),
      credentialNames: [names.key, names.otp],
      sessionCookie: names.sessionCookie,
      forwardCredentials: config.identity.forward_credentials,
      tracing: tracing !== undefined,
    }),
    forward: createForward({ sessionCookie: names.sessionCookie }),
    upstreamOf: (name) => upstreamNamed(upstreams, name),
    defaultUpstream: defaultUpstream(config),
    identityNames: config.identity.headers,
    sessionScope: policy.sessionScope,
    rateLimitNames: { remaining: names.rateLimitRemaining, reset: names.rateLimitReset },
    log,
    accessLog: new AccessLog(log, config.log),
    tracing,
    auditor: new Auditor(audit, policyVersion(config)),
    logFault,
  };
  return {
    house,
    recheck: (head, now) => whenReady(lasting.judge(head, now), (verdict) => verdict.refusal),
    streamRecheck: config.proxy.stream_recheck,
    pending: () => upstreams.pending(),
    loads: () => upstreams.loads(),
    upgrade: createUpgrade({ sessionCookie: names.sessionCookie }),
    close: async () => {
      await lastSeen
        .close()
        .catch((error: unknown) => log.warn({ err: error }, 'last uses could not be written before the end'));
      await source?.close();
      await upstreams.close();
    },
  };
}

function upstreamNamed(upstreams: { get(name: string): Upstream | undefined }, name: string): Upstream {
  const upstream = upstreams.get(name);
  if (upstream === undefined) throw new Error(`no upstream is named ${name}`);
  return upstream;
}
