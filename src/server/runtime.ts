import { collectReceipt, type KnownFleet } from '../accounts/fleet-receipts.js';
import { JwtIssuers, KeySets } from '../accounts/jwt/issuers.js';
import { createWriteLimit, TokenRates } from '../accounts/token-rates.js';
import { TokenRotations } from '../accounts/token-rotations.js';
import type { LoadedConfig } from '../config/load.js';
import { logSettings } from '../config/mask.js';
import { compilePolicy } from '../config/policy.js';
import {
  challengeSettings,
  credentialNames,
  headNames,
  jwtCookies,
  reservedIdentity,
  resourceMetadata,
  vendorNames,
  hasCors,
} from '../config/derived.js';
import { mapMaybe } from '../util/async.js';
import { createHandlers } from '../endpoints/endpoints.js';
import { pageSettings, readPageFiles } from '../endpoints/page-settings.js';
import { Assertions, createIdentify } from '../gate/identity.js';
import { Authenticator, TokenLimits } from '../gate/authenticate.js';
import { Gate, type GateServices } from '../gate/gate.js';
import { Ownership } from '../gate/ownership.js';
import { LOGIN_STATE_COOKIE } from '../http/cookies.js';
import { createClientReader, isTrustedProxy, type PeerSocket } from '../http/client-address.js';
import { createFieldSplitter } from '../http/fields.js';
import { createChallenge } from '../http/replies.js';
import { createHeadReader } from '../http/read-head.js';
import { type Log, logFor } from '../observe/log.js';
import { storeMetrics } from '../observe/metrics.js';
import type { Tracing } from '../observe/tracing/spans.js';
import { createForward } from '../upstream/forward.js';
import {
  createForwardAuthHeaders,
  createRequestHeaders,
  type RequestHeaderSettings,
} from '../upstream/request-headers.js';
import { createUpgrade } from '../upstream/upgrade.js';
import { Upstreams } from '../upstream/upstreams.js';
import { AccessLog } from '../pipeline/access-log.js';
import { Auditor, policyVersion } from '../pipeline/auditor.js';
import type { ShadowDifferences } from '../pipeline/shadow.js';
import { CorsRules } from '../pipeline/browsers.js';
import type { Services } from '../pipeline/services.js';
import type { Recheck } from '../pipeline/streams.js';
import { createJwtEvents, openAccounts, openKeyRing, openOidc } from './accounts.js';
import { createInterfaceDocument } from './interface-document.js';
import { openShadow } from './shadow.js';
import type { OpenedStore } from './stores/open-store.js';
import { createFaultLog, createMisconfigurationReporter } from '../pipeline/faults.js';

export type Runtime = ReturnType<typeof createRuntime>;

/**
 * Builds the services of a configuration.
 * @param readPage reads the files of the web page, which only exist after a build
 * @param keySets those of the previous configuration in this process, if any
 * @param isReady whether this process serves requests
 */
export function createRuntime(
  loaded: LoadedConfig,
  opened: OpenedStore,
  processLog: Log,
  tracing?: Tracing,
  fleet: () => KnownFleet = () => ALONE,
  readPage = readPageFiles,
  keySets = new KeySets(),
  differences: ShadowDifferences | null = null,
  isReady: () => Promise<boolean> = async () => true,
) {
  const { config, lines } = loaded;
  const { store, audit } = opened;
  const ofLog = logSettings(loaded);
  const log = logFor(processLog, ofLog);
  const logFault = createFaultLog(log);
  const names = vendorNames(config.interface);
  const { sites, policy } = compilePolicy(config, lines);
  const accounts = openAccounts(config, opened, log, logFault);
  const { lastSeen, sessions, tokens, logins } = accounts;
  const { ui, account_endpoints: hasSudo } = config.interface;
  const ownership = new Ownership(tokens, policy, config.tokens.limits);
  const { assertion } = config.identity;
  const keys = openKeyRing(config, opened, (error) =>
    logFault(error, 'signing keys could not be reloaded; known keys stay in use'),
  );
  const reserved = reservedIdentity(config);
  const { writes_per_hour: perHour } = config.rate_limit;
  const { warn_before: warnBefore } = config.tokens;
  const upstreams = new Upstreams(config.upstreams, log);

  const issuers =
    config.jwt_issuers.length === 0
      ? null
      : new JwtIssuers(
          config.jwt_issuers,
          createJwtEvents(log),
          keySets,
          Object.values(config.identity.claims),
        );

  const oidc = openOidc(config, opened, log);
  const rates = new TokenRates(store.usage, (error) => {
    storeMetrics.unsharedRates.inc();
    logFault(error, 'token rate not shared; limiting it in this process only');
  });
  const parts: GateServices = {
    sites,
    policy,
    authenticator: new Authenticator(store.tokens, sessions, issuers, config.tokens.owner_login_within),
    ownership,
    tokenLimits: new TokenLimits(config.tokens.limits, rates),
    lastSeen,
    tokens,
    writeLimit: perHour === null ? null : createWriteLimit(store.usage, perHour),
  };
  const gate = new Gate(parts);
  const shadow = openShadow(loaded, parts, logFault, differences);
  const recheckGate = gate.forRecheck();

  const readClient = createClientReader(config.listen.trusted_proxies, sites.hosts.length > 0);
  const schemes = headNames(config);
  const credentials = credentialNames(config);
  const credentialCookies = [names.sessionCookie, ...jwtCookies(config.jwt_issuers)];
  const otherCookies = oidc === null ? [] : [LOGIN_STATE_COOKIE];
  const ownCookies = [names.sessionCookie, ...otherCookies];
  const requestHeaderSettings: RequestHeaderSettings = {
    protectedNames: reserved.names,
    protectedPrefixes: reserved.prefixes,
    credentialNames: credentials,
    schemes,
    ...(issuers === null ? {} : { isOwnJwt: (jwt: string) => issuers.isOwn(jwt) }),
    credentialCookies,
    ownCookies: otherCookies,
    forwardCredentials: config.identity.forward_credentials,
    tracing: tracing !== undefined,
  };

  const services: Services = {
    bodyLimits: config.limits,
    readHead: createHeadReader(schemes, config.limits, readClient),
    challenge: createChallenge(challengeSettings(config)),
    schemes,
    gate,
    recheckGate,
    endings: opened.endings,
    shadow,
    handlerOf: createHandlers({
      directory: store.directory,
      policy,
      logins,
      sessions,
      tokens,
      rotations: new TokenRotations(store, config.tokens),
      collectReceipt: async (sentAt) => collectReceipt(store.fleet, fleet(), sentAt),
      ownership,
      identify: hasSudo || oidc !== null ? (head, now) => gate.identify(head, now) : null,
      signingKeys: keys,
      sessionCookie: names.sessionCookie,
      resource: resourceMetadata(config),
      oidc,
      page: pageSettings(config, names.key, ui.enabled ? readPage(names.otp, oidc !== null) : null),
      isReady,
      interfaceDocument: createInterfaceDocument(config),
    }),
    pages: sites,
    requestHeaders: createRequestHeaders(requestHeaderSettings),
    forward: createForward(ownCookies),
    upgrade: createUpgrade(ownCookies),
    decisionHeaders: createForwardAuthHeaders(requestHeaderSettings),
    splitJoined: createFieldSplitter({
      credentialNames: credentials,
      ownCookies: [...credentialCookies, ...otherCookies],
    }),
    upstreams,
    identify: createIdentify(
      config.identity.headers,
      policy.sessionScope,
      keys === null
        ? null
        : {
            header: assertion.header,
            assertions: new Assertions(keys, {
              issuer: required(assertion.issuer),
              audience: required(assertion.audience),
              ttl: assertion.ttl,
              idleTimeout: config.sessions.idle_timeout,
              sessionScope: policy.sessionScope,
            }),
          },
      config.identity.claims,
    ),
    bindsAssertions: assertion.enabled && assertion.bind === 'request',
    expiryWarning: warnBefore === null ? null : { name: names.tokenExpiration, before: warnBefore },
    rateLimitNames: { remaining: names.rateLimitRemaining, reset: names.rateLimitReset },
    log,
    accessLog: new AccessLog(log, config.log, ofLog.configHash),
    tracing,
    cors: hasCors(config) ? new CorsRules(sites, config.cors) : null,
    auditor: new Auditor(audit, policyVersion(config), ofLog.configHash),
    logFault,
    reportMisconfiguration: createMisconfigurationReporter(log),
  };
  const recheck: Recheck = (head, now) =>
    mapMaybe(recheckGate.evaluate(head, now), (verdict) => verdict.refusal);
  return {
    services,
    isTrustedProxy: (peer: PeerSocket) => isTrustedProxy(readClient, peer),
    recheck,
    streamRecheck: config.proxy.stream_recheck,
    /** Requests in flight continue after `stopChecks`; idle connections close by themselves. */
    upstreams,
    /** Flushes last-seen data, but closes no connection. */
    closeAccounts: accounts.close,
    /** Flushes last-seen data and closes the upstream connections, but not the store. */
    close: async () => {
      await accounts.close();
      upstreams.close();
    },
  };
}

/** The fleet of a process that is not a member of one. */
const ALONE: KnownFleet = { members: [], self: null };

/** Returns a value whose presence the configuration check ensured. */
function required(value: string | null): string {
  if (value === null) throw new Error('identity.assertion is enabled without an issuer or audience');
  return value;
}
