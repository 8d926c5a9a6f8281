import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { SignJWT } from 'jose';
import t from 'tap';
import { ConfigError } from '../../src/config/fault.js';
import { digestOfField } from '../../src/domain/secret.js';
import type { Explanation } from '../../src/gate/explain.js';
import { type SimulatedCaller, Simulator } from '../../src/pipeline/simulate.js';
import { HANDSHAKE } from '../helpers/entrances.js';
import { checkBytes, type GrpcReply } from '../helpers/grpc.js';
import { type Handled, type InProcess, startInProcess } from '../helpers/in-process.js';
import { newPair } from '../helpers/key-server.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { options, Share, told } from '../helpers/property.js';
import { type Asked, configs, requests, TOKENS } from './exchanges.js';

/*
 * One request, sent to every entrance and asked of every prediction: the same decision for the same
 * reason, the same identity, the same entries in both logs. What may differ is in EXCEPTIONS.
 */

const ISSUER = 'https://ci.example';
const pair = await newPair('k');
const jwks = join(temporaryFolder(t), 'jwks.json');
writeFileSync(jwks, JSON.stringify({ keys: [pair.jwk] }));
const jwt = (claims: object) =>
  new SignJWT({ iss: ISSUER, aud: 'latchkey', sub: 'a', ...claims }).setIssuedAt().setExpirationTime('10m')
    .setProtectedHeader({ alg: pair.algorithm, kid: pair.kid }).sign(pair.privateKey); // prettier-ignore
const JWTS = {
  jwt: await jwt({}),
  foreign: await jwt({ iss: 'https://other.example' }),
  strange: await jwt({ sub: 'z' }),
};
const issuer = {
  name: 'ci', issuer: ISSUER, audience: 'latchkey', jwks: { file: jwks },
  subjects: [{ claims: { sub: 'a' }, customer_id: 'C1', role: 'engineer', services: ['SVC1'] }],
}; // prettier-ignore

type Headers = Record<string, string[]>;
type Decided = Pick<Handled, 'status' | 'headers' | 'text' | 'json' | 'audit' | 'log'> & Partial<GrpcReply>;

/** Everything about one request that the comparisons need. */
interface Case {
  readonly asked: Asked;
  /** In lower case. */
  readonly headers: Headers;
  readonly isHandshake: boolean;
  /** What the public port does over HTTP/1.1. */
  readonly model: Handled;
  readonly explained: Explanation;
}

const isWebSocket = ({ headers }: Case) => /^websocket$/i.test(headers['upgrade']?.[0] ?? '');
const namesKey = (each: Case) => isWebSocket(each) || each.headers['sec-websocket-key'] !== undefined;

/**
 * Where the decision ports may decide otherwise (docs/decision-endpoint.md): their detail, or that
 * of the public port, and when that may be. All are refused there, except where `allows` is set.
 */
const EXCEPTIONS: readonly { readonly why: string; readonly detail: RegExp; readonly of?: 'model'; readonly when?: (each: Case) => boolean; readonly allows?: true }[] = [
  { why: 'the proxy could not remove another spelling of a protected name', detail: /can be mistaken for|clients may not set the header/ },
  { why: 'the proxy would pass another protocol on', detail: /^only Upgrade: websocket/, when: (each) => !isWebSocket(each) },
  { why: 'proxies that do not pass Upgrade on are asked about handshakes too', detail: /WebSocket|another origin/, when: (each) => namesKey(each) && !each.isHandshake },
  { why: 'built-in endpoints are not decided', detail: /^Latchkey serves/, when: ({ explained }) => explained.route?.place === null },
  { why: 'Envoy reads text', detail: /is not UTF-8/ },
  { why: 'only the forwarder cares for the protocol of the upstream', detail: /WebSockets are not supported|accept WebSockets/, of: 'model', allows: true },
]; // prettier-ignore

/** The entry of a request, without what differs in each, and with names in lower case. */
function entryOf({ log }: Pick<Handled, 'log'>): Record<string, unknown> {
  const rest = without(log.find(({ msg }) => msg === 'request') ?? {}, PER_ENTRY);
  return JSON.parse(plain(JSON.stringify(rest))) as Record<string, unknown>;
} // prettier-ignore

/** HTTP/2 and gRPC have names in lower case, and no empty host. */
function plain(text: string): string {
  return text
    .replace(/the header \S+/g, (name) => name.toLowerCase())
    .replace('the Host header is missing', 'the Host header is not a host name with an optional port');
}

const auditOf = ({ audit }: Pick<Handled, 'audit'>) =>
  audit.map((entry) => ({ ...entry, time: 0, request_id: '' }));
const PER_ENTRY = /^(time|request_id|.*ms|protocol|bytes_sent)$/;
const PER_ANSWER =
  /^(date|x-request-id|connection|keep-alive|content-length|service-ratelimit-remaining|etag|last-modified)$/;
const without = (fields: object, names: RegExp) =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !names.test(name)));
const asIs = (value: unknown) => String(value);
const asUtf8 = (value: unknown) => Buffer.from(String(value), 'latin1').toString();

class Entrances {
  readonly #server: InProcess;
  readonly #secrets: Record<string, string>;
  readonly #simulator: Simulator;
  /** As `check --expect`, which has no store. */
  readonly #described: Simulator;
  readonly #assertion: string;
  readonly #names: ReadonlySet<string>;

  constructor(server: InProcess, secrets: Record<string, string>) {
    const { headers, assertion } = server.loaded.config.identity;
    this.#server = server;
    this.#secrets = { ...JWTS, ...secrets };
    this.#simulator = new Simulator(server.loaded, server.opened.store);
    this.#described = new Simulator(server.loaded, null);
    this.#assertion = assertion.header.toLowerCase();
    const given = [...Object.values(headers), assertion.header];
    this.#names = new Set(given.filter((name) => name !== null).map((name) => name.toLowerCase()));
  }

  /** Asks everything about one request. Returns whether it was forwarded. */
  async check(asked: Asked): Promise<boolean> {
    const { method, target, body } = asked;
    const headers = this.#headersOf(asked);
    const named = spelled(headers, asked.lower);
    const chunked = body === 'chunked' ? { 'transfer-encoding': ['chunked'] } : {};
    const sent = { method, headers: { ...named, ...chunked }, ...(body === undefined ? {} : { body: 'abc' }) };
    const model = await this.#server.handshake(target, sent);
    const told = { ...named, ...chunked, ...(body === 'length' ? { 'content-length': ['3'] } : {}) };
    const fields = Object.entries(told).flatMap(([name, values]) => values.flatMap((value) => [name, wireText(value)]));
    const request = { method, target, fields };
    const explained = await this.#simulator.simulate({ ...request, as: 'anonymous' }, Date.now());
    const isHandshake = /^websocket$/i.test(headers['upgrade']?.[0] ?? '') && /\bupgrade\b/i.test(String(headers['connection']));
    const each = { asked, headers, isHandshake, model, explained };
    try {
      this.#explained(each);
      await this.#predicted(each, request);
      if (!isHandshake) await this.#http2(each);
      for (const [name, decided] of Object.entries(await this.#decisions(asked, told))) {
        try {
          this.#decided(each, decided, name === 'gRPC');
        } catch (error) {
          throw new Error(`${name}: ${(error as Error).message}\n${decided.status} ${decided.text} ${JSON.stringify([decided.headers, decided.log])}`, { cause: error });
        }
      }
    } catch (error) {
      const { status, text, log, forwarded } = model;
      throw new Error(`${(error as Error).message}\nHTTP/1.1: ${status} ${text} ${JSON.stringify([log, forwarded, explained.verdict])}`, { cause: error });
    }
    return model.forwarded !== undefined;
  } // prettier-ignore

  #headersOf({ credentials, page, others, body, upgrades }: Asked): Headers {
    const headers: Headers = {};
    const handshake = Object.entries(HANDSHAKE).map(([name, value]) => [name.toLowerCase(), value] as const);
    const isTaken = (name: string) =>
      (body !== undefined && isFraming(name)) || (upgrades && handshake.some(([own]) => own === name));
    const given = [...credentials, ...page, ...others].filter(([name]) => !isTaken(name));
    for (const [name, text] of [...given, ...(upgrades ? handshake : [])]) {
      const value = text.replace(/<(\w+)>/g, (whole, secret: string) => this.#secrets[secret] ?? whole);
      (headers[name] ??= []).push(value);
    }
    headers['host'] = [headers['host']?.[0] ?? 'api.example'];
    return headers;
  }

  async #decisions({ method, target }: Asked, told: Headers): Promise<Record<string, Decided>> {
    const { decide, decideByGrpc } = this.#server;
    const isRenamed = (name: string) => isFraming(name) || name.toLowerCase() === 'upgrade';
    const renamed = Object.entries(told).map(([name, values]) => [isRenamed(name) ? `X-Original-${name}` : name, values]);
    const nginx = { ...Object.fromEntries(renamed), 'X-Original-Method': method, 'X-Original-URI': target };
    const caddy = { ...told, 'X-Forwarded-Method': method, 'X-Forwarded-Uri': target };
    return {
      'auth-request': await decide('/auth-request', { method: 'GET', headers: nginx }),
      'forward-auth': await decide('/forward-auth', { method: 'GET', headers: caddy }),
      ...(target.startsWith('/') ? { ext_authz: await decide(`/ext_authz${target}`, { method, headers: told }) } : {}),
      gRPC: await decideByGrpc(checkBytes({ method, target, headers: told })),
    };
  } // prettier-ignore

  #identity(fields: object, read = asIs): Record<string, unknown> {
    const own = Object.entries(fields).filter(([name]) => this.#names.has(name));
    return Object.fromEntries(own.map(([name, value]) => [name, name === this.#assertion ? 'signed' : read(value)]));
  } // prettier-ignore

  /** `explain` predicts what the public port does. */
  #explained({ isHandshake, model, explained }: Case): void {
    const { verdict, route, action, identity } = explained;
    const entry = entryOf(model);
    // A JWT is only verified when a request is served.
    if (verdict.outcome === 'unauthenticated' && /JWT/.test(explained.note ?? '')) return;
    if (model.log.length === 0 || model.status === 431) {
      equal(verdict.allowed, false, 'the parser refuses it');
      return;
    }
    equal(entry['action'] ?? null, action, 'action');
    if (route !== null && route.path !== '*') equal(entry['route'], route.path);
    if (verdict.outcome === 'answer') {
      equal(model.forwarded, undefined);
      equal(isHandshake, false);
    } else if (verdict.outcome === 'forward') {
      equal(entry['outcome'], 'forwarded');
      const { [this.#assertion]: _, ...fields } = this.#identity(model.forwarded?.fields ?? {});
      deepEqual(fields, Object.fromEntries(Object.entries(identity).map(([name, value]) => [name.toLowerCase(), value])));
      equal(model.forwarded?.upstream, verdict.upstream);
    } else {
      equal(entry['outcome'], verdict.outcome);
      equal(model.status, verdict.status, 'status');
      if (model.json !== undefined) equal(plain(model.json.detail ?? model.json.msg), plain(verdict.detail ?? ''));
    }
  } // prettier-ignore

  /** The same caller, described in other ways, gets the same verdict. */
  async #predicted({ asked, explained }: Case, { fields, ...request }: { method: string; target: string; fields: string[] }): Promise<void> {
    const [first, ...more] = asked.credentials;
    if (first === undefined || more.length > 0 || !/^<[a-z]+>$/.test(first[1])) return;
    const secret = this.#secrets[first[1].slice(1, -1)] ?? '';
    const left = fields.filter((_, i) => fields[i - (i % 2)]?.toLowerCase() !== first[0]);
    const { store } = this.#server.opened;
    const callers: SimulatedCaller[] = [];
    if (first[0] === 'service-key' && first[1] !== '<jwt>') {
      const record = await store.tokens.find(digestOfField(secret));
      callers.push({ key: secret }, { record });
      // A described token has no limits of its own.
      if (record !== undefined && record.token.restrictions === undefined && this.#server.loaded.config.tokens.limits.addresses === null)
        callers.push({ subject: { credential: 'token', token: record.token, user: record.owner } });
    }
    for (const as of callers) {
      const { verdict, route, action } = await this.#simulator.simulate({ ...request, fields: left, as }, Date.now());
      deepEqual([verdict, route, action], [explained.verdict, explained.route, explained.action], JSON.stringify(as));
      if (as === 'anonymous' || !('subject' in as) || /active_tokens|not_found/.test(explained.verdict.outcome)) continue;
      const expected = await this.#described.simulate({ ...request, fields: left, as }, Date.now());
      deepEqual([expected.verdict, expected.route], [explained.verdict, explained.route], 'check --expect');
    }
  } // prettier-ignore

  async #http2({ asked: { method, target, body }, headers, model }: Case): Promise<void> {
    const { 'transfer-encoding': coding, ...rest } = headers;
    const names = Object.keys(rest);
    // HTTP/2 has no such fields, or node's client does not send them.
    if (coding !== undefined || names.some((name) => /^(connection|upgrade|keep-alive|proxy-connection|content-length)$|[^a-z0-9_-]/.test(name))) return;
    if (/[^ -~]/.test(target) || names.some((name) => /[^ -~]|^ | $/.test(String(rest[name])))) return;
    const flat = Object.fromEntries(Object.entries(rest).map(([name, values]) => [name, values.length === 1 ? String(values[0]) : values]));
    const sent = { method, headers: { ...flat, ...(body === 'length' ? { 'content-length': '3' } : {}) }, ...(body === undefined ? {} : { body: 'abc' }) };
    const reply = await this.#server.requestByHttp2(target, sent).catch(() => undefined);
    if (reply === undefined) return;
    const isGrpc = reply.headers['content-type'] === 'application/grpc';
    if (model.log.length === 0) {
      ok(reply.status >= 400);
      return;
    }
    deepEqual(entryOf(reply), entryOf(model), 'HTTP/2');
    deepEqual(auditOf(reply), auditOf(model), 'HTTP/2');
    deepEqual(this.#forwarded(reply), this.#forwarded(model), 'HTTP/2');
    if (isGrpc) return;
    equal(reply.status, model.status, 'HTTP/2');
    deepEqual(without(reply.headers, PER_ANSWER), without(model.headers, PER_ANSWER), 'HTTP/2');
    if (reply.status >= 400) equal(plain(reply.text), plain(model.text), 'HTTP/2');
  } // prettier-ignore

  #forwarded({ forwarded }: Handled): unknown {
    if (forwarded === undefined) return undefined;
    const { 'x-request-id': _, ...fields } = forwarded.fields;
    return { ...forwarded, fields: { ...fields, ...this.#identity(fields) } };
  }

  #decided(each: Case, decided: Decided, isGrpc: boolean): void {
    const { model, headers } = each;
    const [entry, own] = [entryOf(model), entryOf(decided)];
    const isAllowed = decided.status === 200;
    ok(decided.headers['x-request-id'] !== undefined);
    if (!isGrpc || !isAllowed) equal(decided.headers['cache-control'], 'no-store');
    if (model.log.length === 0) {
      equal(isAllowed, false, 'refused by the parser');
      return;
    }
    // The question has the target among its fields, which may be too long together.
    if (decided.log.length === 0 && entry['outcome'] === 'target_too_long') {
      equal(isAllowed, false);
      match(decided.text, /the header fields together are too long/);
      return;
    }
    // Proxies answer preflights themselves.
    if (String(entry['outcome']).startsWith('preflight')) return;
    const exception = EXCEPTIONS.find(
      ({ detail, of, when }) => detail.test(String((of === 'model' ? entry : own)['detail'])) && when?.(each) !== false,
    );
    if (exception !== undefined) {
      equal(isAllowed && exception.allows !== true, false, exception.why);
      return;
    }
    const { status: _, outcome, upstream: __, ...rest } = entry;
    const { status: ___, outcome: result, upstream: ____, ...left } = own;
    equal(result, outcome === 'forwarded' ? 'allowed' : outcome);
    deepEqual(left, rest);
    deepEqual(auditOf(decided), auditOf(model));
    const added = isAllowed && isGrpc ? (decided.added ?? {}) : decided.headers;
    for (const name of ['service-token-expiration', 'service-ratelimit-reset', 'retry-after'])
      equal(added[name], model.headers[name], name);
    equal('service-ratelimit-remaining' in added, 'service-ratelimit-remaining' in model.headers);
    const { forwarded } = model;
    equal(isAllowed, forwarded !== undefined);
    if (forwarded === undefined) {
      const is401 = /^(unauthenticated|token_expired)$/.test(String(outcome));
      // A page request goes to the login; nginx passes on no other status than 401 and 403.
      if (model.status === 303) {
        ok([303, 401].includes(decided.status), String(decided.status));
        equal(decided.headers['location'], model.headers['location']);
        return;
      }
      equal(decided.status, is401 ? 401 : model.status >= 500 && model.status !== 501 ? model.status : 403);
      if (is401) equal(decided.headers['www-authenticate'], model.headers['www-authenticate'] ?? decided.headers['www-authenticate']);
      if (model.text !== '' && decided.text !== '') equal(plain(decided.text), plain(model.text));
      return;
    }
    deepEqual(this.#identity(decided.headers), this.#identity(forwarded.fields, isGrpc ? asUtf8 : asIs));
    if (!/cookie/.test(String(headers['connection']))) equal(decided.headers['cookie'] ?? '', forwarded.fields['cookie'] ?? '');
    equal(decided.headers['authorization'], forwarded.fields['authorization']);
  } // prettier-ignore
}

const isFraming = (name: string) => /^(content-length|transfer-encoding)$/i.test(name);

/** The names as a client spells them. */
function spelled(headers: Headers, lower: boolean): Headers {
  const capitalized = (name: string) => name.replace(/(^|-)[a-z]/g, (text) => text.toUpperCase());
  return Object.fromEntries(
    Object.entries(headers).map(([name, values]) => [
      lower && name !== 'host' ? name : capitalized(name),
      values,
    ]),
  );
}

/** Text whose UTF-8 form is these bytes. */
function wireText(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

async function compare(config: object, list: readonly Asked[], forwarded: Share): Promise<void> {
  const undo: (() => void | Promise<void>)[] = [];
  try {
    const server = await startInProcess({ teardown: (fn) => void undo.push(fn) }, config);
    const secrets: Record<string, string> = { cookie: await server.login('superuser') };
    for (const [name, [user, parameters]] of Object.entries(TOKENS))
      secrets[name] = await server.token(user, parameters);
    const entrances = new Entrances(server, secrets);
    for (const asked of list) {
      try {
        forwarded.note(await entrances.check(asked));
      } catch (error) {
        throw new Error(`${(error as Error).message}\nasked: ${JSON.stringify(asked)}`, { cause: error });
      }
    }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
  } finally {
    for (const each of undo.toReversed()) await each();
  }
}

/** A run is one configuration with this many requests. */
const REQUESTS = 40;
/** Fewest configurations; more requests than theirs are spread over more configurations. */
const LEAST = 5;

t.test('every entrance and every prediction decides alike', async (t) => {
  const forwarded = new Share();
  const list = fc.array(requests, { minLength: REQUESTS, maxLength: REQUESTS });
  const { numRuns = 0, ...repeated } = options<[object, Asked[]]>(LEAST * REQUESTS);
  const details = await fc.check(
    fc.asyncProperty(configs(issuer), list, (config, each) => compare(config, each, forwarded)),
    { ...repeated, numRuns: Math.max(LEAST, Math.ceil(numRuns / REQUESTS)), endOnFailure: true },
  );
  t.notOk(details.failed, told(details));
  t.ok(forwarded.exceeds(0.1), `${forwarded.part} forwarded`);
});
