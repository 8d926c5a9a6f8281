import { Sessions } from '../accounts/sessions.js';
import { Tokens } from '../accounts/tokens.js';
import type { LoadedConfig } from '../config/load.js';
import { headNames, vendorNames } from '../config/derived.js';
import { compilePolicy } from '../config/policy.js';
import type { Subject } from '../domain/credential.js';
import { digestOfField, isMadeUp } from '../domain/secret.js';
import type { Session } from '../domain/session.js';
import type { EpochMs } from '../util/time.js';
import {
  Authenticator,
  checkToken,
  NO_DEFAULTS,
  sendsCredential,
  TokenLimits,
} from '../gate/authenticate.js';
import { type Explanation, explain, explainPreflight, explainRefused } from '../gate/explain.js';
import { Ownership } from '../gate/ownership.js';
import type { WhatIf } from '../gate/gate.js';
import { authenticatorOf, storedToken } from '../gate/what-if.js';
import { ignoredAuthorization } from '../http/authorization.js';
import { createClientReader } from '../http/client-address.js';
import type { RequestHead } from '../http/head.js';
import { type HeadLimits, type HeadReader, createHeadReader, parserLimits } from '../http/read-head.js';
import type { Store } from '../store/core/store.js';
import type { TokenWithOwner } from '../store/core/token-records.js';
import { CorsRules, loginRedirect } from './browsers.js';
import { parseRefusal } from './faults.js';
import { isHandshake, refuseWebSocket } from '../upstream/handshake.js';
import { firstField, LINE_BYTES } from '../http/fields.js';
import type { Fault } from '../http1/events.js';
import { Framing, fieldFault } from '../http1/framing.js';

export interface SimulatedRequest {
  readonly method: string;
  readonly target: string;
  /** Alternating names and values; bytes beyond ASCII as UTF-8. */
  readonly fields?: readonly string[];
  /** The client's address; 127.0.0.1 if absent. */
  readonly address?: string | undefined;
  readonly as: SimulatedCaller;
}

export type SimulatedCaller =
  | { readonly key: string }
  | { readonly record: TokenWithOwner | undefined }
  | { readonly subject: Subject }
  | 'anonymous';

/** Decides requests with the reader and gate that serve real ones. Nothing is recorded or forwarded. */
export class Simulator {
  readonly #loaded: LoadedConfig;
  readonly #readHead: HeadReader;
  readonly #keyName: string;
  readonly #parts: WhatIf;
  readonly #authenticator: Authenticator | null;
  readonly #store: Store | null;
  readonly #cors: CorsRules;

  /**
   * @param store null when there is none: then no tokens exist, and any token id counts as the caller's own
   */
  constructor(loaded: LoadedConfig, store: Store | null) {
    const { config, lines } = loaded;
    const { sites, policy } = compilePolicy(config, lines);
    const tokens =
      store === null ? null : new Tokens(store, UNUSED, config.tokens, Object.keys(config.policy.scopes));
    this.#loaded = loaded;
    this.#store = store;
    this.#keyName = vendorNames(config.interface).key;
    this.#cors = new CorsRules(sites, config.cors);
    this.#readHead = createHeadReader(
      headNames(config),
      config.limits,
      createClientReader(config.listen.trusted_proxies, sites.hosts.length > 0),
    );
    this.#authenticator =
      store === null
        ? null
        : new Authenticator(
            store.tokens,
            new Sessions(store, UNUSED, config.sessions),
            null,
            config.tokens.owner_login_within,
          );
    this.#parts = {
      sites,
      policy,
      authenticator: this.#authenticator ?? NO_AUTHENTICATOR,
      ownership: new Ownership(tokens ?? { trace: async () => undefined }, policy),
      tokenLimits: new TokenLimits(config.tokens.limits, null),
      tokens: tokens ?? { hasActive: async () => false },
    };
  }

  /** A key or a session in the fields of an anonymous request is looked up; a JWT there is not accepted. */
  async simulate(
    { method, target, fields = [], address = '127.0.0.1', as }: SimulatedRequest,
    now: EpochMs,
  ): Promise<Explanation> {
    const key = as !== 'anonymous' && 'key' in as ? [this.#keyName, as.key] : [];
    const rawHeaders = wireFields([...fields, ...key]);
    const socket = { remoteAddress: address };
    const fault = parserFault(target, rawHeaders, this.#loaded.config.limits);
    const head =
      fault === undefined
        ? this.#readHead({ method, url: target, httpVersion: '1.1', rawHeaders, socket })
        : parseRefusal(fault);
    if ('refusal' in head) return explainRefused(method, target, head);
    return this.#explain(head, as, now);
  }

  async #explain(head: RequestHead, as: SimulatedCaller, now: EpochMs): Promise<Explanation> {
    const { config } = this.#loaded;
    const upgrades = isHandshake(head);
    const preflight = upgrades ? undefined : this.#cors.preflight(head);
    if (preflight !== undefined) return explainPreflight(head, preflight);
    const protocolOf = (name: string | null) => config.upstreams[name ?? '']?.protocol ?? 'http1';
    const explanation = await explain(this.#partsFor(as), head, now, {
      identityNames: config.identity.headers,
      identityClaims: config.identity.claims,
      refuseAdmitted: (admitted) => (upgrades ? refuseWebSocket(head, admitted, protocolOf) : undefined),
      redirectOf: (refusal, route) =>
        upgrades || sendsToken(as)
          ? undefined
          : loginRedirect(head, refusal, route?.loginPath ?? null, this.#parts.sites)?.status,
    });
    if (explanation.verdict.outcome !== 'unauthenticated') return explanation;
    return { ...explanation, note: await this.#whyNot(as, head) };
  }

  async #whyNot(as: SimulatedCaller, { key, jwt, session, fields }: RequestHead): Promise<string> {
    if (as === 'anonymous') {
      if (jwt !== undefined) return 'a JWT in the header fields is not checked here';
      if (key === undefined && session === undefined)
        return (
          ignoredAuthorization(fields, headNames(this.#loaded.config)) ?? 'the request has no credential'
        );
      if (this.#store === null) return 'there is no store to look up the credential in the header fields';
      if (key === undefined) return 'the session is unknown or has ended, or its user is locked';
    }
    const caller = as === 'anonymous' ? { key } : as;
    if ('subject' in caller) return `the user ${caller.subject.user.login} is locked`;
    const byRecord = 'record' in caller;
    if (!byRecord && isMadeUp(key as string)) return 'it has the form of a token, but a wrong checksum';
    const found = byRecord ? caller.record : await this.#store?.tokens.find(digestOfField(key as string));
    if (found === undefined)
      return byRecord ? 'it has no valid credential' : 'no token and no legacy key has this value';
    const { token, owner } = found;
    if (owner.locked) return `its owner ${owner.login} is locked`;
    return token.restrictions?.suspended === true
      ? `the token ${token.id} is suspended`
      : `its owner ${owner.login} has not logged in for too long`;
  }

  #partsFor(as: SimulatedCaller): WhatIf {
    if (as === 'anonymous') return this.#parts;
    if ('record' in as) {
      const { owner_login_within: loginWithin } = this.#loaded.config.tokens;
      const authenticate = (_head: unknown, now: EpochMs) => checkToken(as.record, now, loginWithin);
      return { ...this.#parts, authenticator: { isSent: () => true, authenticate } };
    }
    if (!('subject' in as)) return this.#parts;
    const { subject } = as;
    const parts = { ...this.#parts, authenticator: authenticatorOf(subject), tokenLimits: UNLIMITED };
    if (this.#authenticator !== null) return parts;
    const ownership = new Ownership(
      { trace: async (id) => ({ token: storedToken(id, subject.user.id), use: null }) },
      this.#parts.policy,
    );
    return { ...parts, ownership };
  }
}

const UNUSED = {
  note: () => undefined,
  pending: () => undefined,
  sessionSeenAt: (session: Pick<Session, 'lastSeenAt'>) => session.lastSeenAt,
};

const NO_AUTHENTICATOR = {
  isSent: sendsCredential,
  authenticate: () => ({ refusal: 'unauthenticated' }) as const,
};

const UNLIMITED = new TokenLimits(NO_DEFAULTS, null);

function sendsToken(as: SimulatedCaller): boolean {
  if (as === 'anonymous') return false;
  return 'subject' in as ? as.subject.credential !== 'session' : 'record' in as;
}

/** Returns fields as the parser returns those of a client that sends them as UTF-8, with a `Host`. */
function wireFields(fields: readonly string[]): string[] {
  const host = firstField(fields, 'host') === undefined ? ['Host', 'localhost'] : [];
  return [...host, ...fields.map(asWireText)];
}

/** Returns why the parser would refuse a target or fields; undefined if it would not. */
function parserFault(target: string, fields: readonly string[], limits: HeadLimits): Fault | undefined {
  const { target_size, head_fields, head_size } = parserLimits(limits);
  if (target.length > target_size) return 'target_too_long';
  const framing = new Framing(true);
  let size = 0;
  for (let i = 0; i < fields.length; i += 2) {
    if (i / 2 >= head_fields) return 'too_many_fields';
    const [name, value] = fields.slice(i, i + 2).map((text) => Buffer.from(text, 'latin1')) as [Buffer, Buffer];
    const fault = fieldFault(framing, name, value);
    if (fault !== undefined) return fault;
    size += name.length + value.length + LINE_BYTES;
    if (size > head_size) return 'head_too_large';
  }
  return undefined;
} // prettier-ignore

/** As the parser returns it: trimmed, with each UTF-8 byte as one Latin-1 character. */
function asWireText(text: string): string {
  return Buffer.from(text.replace(/^[ \t]+|[ \t]+$/g, ''), 'utf8').toString('latin1');
}
