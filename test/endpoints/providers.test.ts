import { createHash, randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { basename } from 'node:path';
import { type JWTPayload, SignJWT } from 'jose';
import t from 'tap';
import { parse } from 'yaml';
import { blocksOf } from '../docs/markdown.js';
import { selfSigned } from '../helpers/certificates.js';
import { serveHttp } from '../helpers/http.js';
import { type Handled, startInProcess } from '../helpers/in-process.js';
import { newPair } from '../helpers/key-server.js';
import { temporaryFolder } from '../helpers/latchkey.js';

/*
 * What real providers send (test/endpoints/providers), with the settings that docs/accounts.md
 * names for each. A proxy of the environment leads every host to this process.
 */

type Values = Readonly<Record<string, unknown>>;

/** What a provider sends. In claims, texts like `<nonce>` stand for values of the login. */
interface Fixture {
  /** The texts that were read for it: addresses, or repositories with paths, and what each one shows. */
  readonly source: readonly string[];
  /** The name of its settings on the page; the name of the file, if absent. */
  readonly entry?: string;
  /** More settings. */
  readonly settings?: Values;
  readonly discovery: Readonly<Record<string, string | undefined>>;
  /** Parameters of the callback besides code and state. */
  readonly callback: Readonly<Record<string, string>>;
  /** Members of its published key. */
  readonly jwk: Values;
  /** Whether it publishes a key for encryption too. */
  readonly encryptionKey?: true;
  /** The scope without which there is no access token. */
  readonly accessTokenScope?: string;
  readonly idToken: Values;
  /** Only if the ID token lacks what a login needs. */
  readonly userInfo?: Values;
  readonly logoutToken?: Values;
  /** Of the logout token's header; JWT, if absent. */
  readonly logoutType?: string;
  readonly expect: {
    readonly login?: string;
    readonly role?: string;
    readonly failure?: string;
    /** Names of the parameters of a logout there; null if there is none. */
    readonly logout?: readonly string[] | null;
  };
}

const FOLDER = 'test/endpoints/providers';
const PAGE = 'docs/accounts.md';
const fixtures = readdirSync(FOLDER).map((file): [string, Fixture] => [
  basename(file, '.json'),
  JSON.parse(readFileSync(`${FOLDER}/${file}`, 'utf8')) as Fixture,
]);

interface Entry {
  readonly name: string;
  readonly title: string;
  readonly client_id: string;
  readonly issuer: string;
  readonly discovery?: string;
}

const entries = blocksOf(PAGE, 'Log in at an identity provider').flatMap(({ kind, text }) => {
  const { login } = kind === 'yaml' ? (parse(text) as { login?: { oidc?: Entry[] } }) : {};
  return login?.oidc ?? [];
});

const hosts = fixtures.flatMap(([, { discovery }]) =>
  Object.values(discovery).flatMap((url) => (URL.canParse(String(url)) ? new URL(String(url)).hostname : [])),
);
const { cert, key } = selfSigned(temporaryFolder(t), 'providers', ['-days', '30'], [...new Set(hosts)]);
const pair = await newPair('one', 'RS256');

/** The provider that answers now, and the login there. */
let answering: { fixture: Fixture; entry: Entry; nonce: string; scopes: string[]; accessToken: string };
const asked: string[] = [];

function filled(claims: Values): JWTPayload {
  const { entry, nonce, accessToken } = answering;
  const now = Math.floor(Date.now() / 1000);
  const half = createHash('sha256').update(accessToken).digest().subarray(0, 16).toString('base64url');
  const values: Values = { '<issuer>': entry.issuer, '<client>': entry.client_id, '<nonce>': nonce, '<at_hash>': half, '<time>': now };
  const fill = (value: unknown): unknown => (Array.isArray(value) ? value.map(fill) : (values[String(value)] ?? value));
  const all = Object.entries(claims).map(([name, value]) => [name, name === 'exp' ? now + 300 : fill(value)]);
  return Object.fromEntries(all) as JWTPayload;
} // prettier-ignore

const sign = (claims: Values, typ = 'JWT') =>
  new SignJWT(filled(claims)).setProtectedHeader({ alg: 'RS256', kid: 'one', typ }).sign(pair.privateKey);

async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const url = `https://${req.headers.host}${req.url}`;
  const { fixture, entry, scopes, accessToken } = answering;
  const { discovery } = fixture;
  asked.push(url);
  const place = entry.discovery ?? `${entry.issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const json = async (): Promise<unknown> => {
    if (url === place) return discovery;
    if (url === discovery['jwks_uri']) {
      const { kty, n, e, kid } = pair.jwk;
      const encryption = { kty, n, e, kid: 'two', use: 'enc', alg: 'RSA-OAEP' };
      return { keys: [...(fixture.encryptionKey ? [encryption] : []), { kty, n, e, kid, ...fixture.jwk }] };
    }
    if (url === discovery['userinfo_endpoint'] && req.headers.authorization === `Bearer ${accessToken}`)
      return fixture.userInfo;
    if (url !== discovery['token_endpoint'] || req.method !== 'POST') return undefined;
    const { accessTokenScope: needed } = fixture;
    const hasAccess = needed === undefined || scopes.includes(needed.replace('<client>', entry.client_id));
    const access = hasAccess ? { access_token: accessToken } : {};
    return { ...access, id_token: await sign(fixture.idToken), token_type: 'Bearer', expires_in: 3600 };
  };
  const body = await json();
  res.writeHead(body === undefined ? 404 : 200, { 'Content-Type': 'application/json' }).end(JSON.stringify(body ?? {}));
} // prettier-ignore

const tls = { cert: readFileSync(cert), key: readFileSync(key) };
const provider = await serveHttp(t, (req, res) => void answer(req, res), tls);
const proxy = await serveHttp(t, (_req, res) => res.writeHead(501).end());
proxy.server.on('connect', (_req, socket) => {
  const tunnel = connect(Number(new URL(provider.url).port), '127.0.0.1', () => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    tunnel.pipe(socket).pipe(tunnel);
  });
  for (const each of [tunnel, socket]) each.on('error', () => undefined);
});
for (const name of ['HTTP_PROXY', 'http_proxy', 'https_proxy', 'NO_PROXY', 'no_proxy'])
  delete process.env[name];
process.env['HTTPS_PROXY'] = proxy.url;

/** Returns the cookie whose name begins like this: the cookie of a login ends with a part of its state. */
const cookieOf = ({ headers }: Handled, name: string) =>
  [headers['set-cookie'] ?? []].flat().map((each) => each.split(';')[0] ?? '').find((each) => each.startsWith(name)) ?? ''; // prettier-ignore

/** The cells of a provider in the table of the page. */
function rowOf(title: string): string[] {
  const row = readFileSync(PAGE, 'utf8').split('\n').find((line) => line.startsWith(`| ${title} `)); // prettier-ignore
  return (row ?? '').split('|').map((cell) => cell.trim());
}

for (const [name, fixture] of fixtures) {
  t.test(`${name}: a login and a logout`, async (t) => {
    const named = entries.find((each) => each.name === (fixture.entry ?? name));
    if (named === undefined) throw new Error(`${PAGE} has no settings for it`);
    const entry = { ...named, ...fixture.settings };
    answering = { fixture, entry, nonce: '', scopes: [], accessToken: randomUUID() };
    asked.length = 0;
    const { request } = await startInProcess(t, {
      login: { public_url: 'https://api.example', oidc: [{ ...entry, client_secret: 'secret', tls: { ca: cert } }] },
    });
    const path = `/_latchkey/oidc/${entry.name}`;
    const begun = await request(`${path}/login`);
    const location = new URL(String(begun.headers.location), 'https://api.example');
    t.equal(location.origin + location.pathname, fixture.discovery['authorization_endpoint']);
    answering.nonce = location.searchParams.get('nonce') ?? '';
    answering.scopes = (location.searchParams.get('scope') ?? '').split(' ');
    const state = location.searchParams.get('state') ?? '';
    const query = new URLSearchParams({ code: 'code', state, ...fixture.callback });
    const cookie = cookieOf(begun, '__Host-latchkey-login-');
    const ended = await request(`${path}/callback?${query}`, { headers: { Cookie: cookie } });
    const { login, role, failure, logout } = fixture.expect;
    if (failure !== undefined) {
      t.match(ended.headers.location, new RegExp(`login_error=${failure}\\b`));
      return;
    }
    t.match(ended, { status: 303, headers: { location: '/_latchkey/' } }, 'the login succeeds');
    const session = { headers: { Cookie: cookieOf(ended, 'service.session=') } };
    t.match((await request('/_latchkey/session', session)).json, { user: { login, role } });
    t.equal(asked.includes(fixture.discovery['userinfo_endpoint'] ?? ''), fixture.userInfo !== undefined, 'UserInfo is asked if it is needed');
    const left = String((await request(`${path}/logout`, session)).headers.location);
    const to = new URL(left, 'https://api.example');
    if (logout == null) t.equal(left, '/_latchkey/', 'no logout there');
    else {
      t.equal(to.origin + to.pathname, fixture.discovery['end_session_endpoint']);
      t.same([...to.searchParams.keys()].toSorted(), logout);
    }
    if (fixture.logoutToken !== undefined) {
      const body = new URLSearchParams({ logout_token: await sign(fixture.logoutToken, fixture.logoutType) });
      t.equal((await request(`${path}/backchannel-logout`, { body })).status, 200);
      t.equal((await request('/_latchkey/session', session)).json?.user, undefined, 'the session has ended');
    }
    const [, , , atProvider, backChannel] = rowOf(entry.title);
    t.equal(atProvider?.startsWith('yes'), logout !== null, 'the table says whether a logout continues there');
    if (fixture.logoutToken !== undefined) t.match(backChannel, /^yes/, 'and that it reports logouts');
  }); // prettier-ignore
}
