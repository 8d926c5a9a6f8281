// The requests to each kind of program, and the rules for its responses.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { onEnd } from '../../lib/processes.mjs';
import { hostileObject, hostileValue } from './json.mjs';
import { nested, request } from './requests.mjs';

/** @import { Random } from '../random.mjs' */

const PASSWORD = 'correct horse battery staple';
const ISSUER = 'https://auth.example.com';
const AUDIENCE = 'example-api';

/**
 * How to fuzz a program.
 *
 * @typedef {object} Target
 * @property {Record<string, string>} env
 * @property {string} control a request that must be answered with 200 in any state
 * @property {string[]} seeds requests that caused problems before
 * @property {(random: Random) => { text: string, statuses: number[] }} next a well-formed request,
 *   and the allowed statuses
 * @property {(text: string) => boolean} entitled whether a text contains what a 200 requires
 */

/**
 * @param {string} name
 * @returns {Promise<Target>}
 */
export async function targetOf(name) {
  if (name === 'account-source') return accounts();
  return name === 'compose-api' ? api() : verifier();
}

/** @param {string} text */
const encode = (text) => Buffer.from(text, 'latin1').toString('base64url');
/** @param {unknown} value */
const isText = (value) => typeof value === 'string' && value.length <= 1_024;
/** @param {string} body */
const ask = (body) => request('POST', ['Content-Type: application/json'], body);
/** @param {string} token */
const show = (token) => request('GET', [`X-Auth-Assertion: ${token}`]);

/** @returns {Target} */
function accounts() {
  const right = { login: 'ada@example.com', password: PASSWORD, otp: null };
  /**
   * As documented: invalid input is 400 and never anything else.
   *
   * @param {string} body
   */
  const statusesOf = (body) => {
    if (body.length > 16_384) return [413];
    let question;
    try {
      question = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(body, 'latin1')));
    } catch {
      return [400];
    }
    const { login, password, otp = null } = question ?? {};
    if (!isText(login) || !isText(password) || (otp !== null && !isText(otp))) return [400];
    return login.toLowerCase() === right.login && password === PASSWORD ? [200] : [401];
  };
  const seeds = ['{"login":1}', '', 'null', '[]', '{"login":"a","password":{}}', '{"login":"bob@example.com","password":"correct horse battery staple","otp":{}}']; // prettier-ignore
  return {
    env: {},
    control: ask(JSON.stringify(right)),
    seeds: [...seeds.map(ask), request('GET', []), ask('x'.repeat(100_000))],
    next: (random) => {
      const login = random.pick(['ada@example.com', 'bob@example.com', 'ADA@EXAMPLE.COM', 'nobody', '']);
      const members = { login, password: random.pick([PASSWORD, 'wrong', '']), otp: null };
      if (random.oneIn(10)) return { text: nested(random, ask(JSON.stringify(right))), statuses: [400, 405] };
      const body = hostileObject(random, members);
      return { text: ask(body), statuses: statusesOf(body) };
    },
    entitled: (text) => /correct(?: |\\u0020)/.test(text),
  };
}

/** @returns {Target} */
function api() {
  return {
    env: {},
    control: request('GET', ['X-Auth-Login: ada']),
    seeds: [request('POST', [], 'x'.repeat(70_000)), request('GET', ['x-auth-__proto__: a'])],
    next: (random) => {
      if (random.oneIn(4)) return { text: nested(random, request('GET', [])), statuses: [200] };
      const fields = Array.from({ length: random.below(4) }, () => `X-Auth-${random.pick(['Role', 'Login', 'A_b'])}: ${'a'.repeat(random.below(50))}`); // prettier-ignore
      return {
        text: request(random.pick(['GET', 'PUT', 'DELETE']), fields, random.pick(['', 'a', '[]'])),
        statuses: [200],
      };
    },
    entitled: () => true,
  };
}

/** @returns {Promise<Target>} */
async function verifier() {
  const pairs = { good: await generateKeyPair('EdDSA'), curve: await generateKeyPair('ES256') };
  const published = [
    { ...(await exportJWK(pairs.good.publicKey)), kid: 'good', alg: 'EdDSA', use: 'sig' },
    { ...(await exportJWK(pairs.curve.publicKey)), kid: 'curve', alg: 'ES256', use: 'sig' },
  ];
  const server = createServer((_req, res) => res.end(JSON.stringify({ keys: published })));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  onEnd(() => server.closeAllConnections());
  onEnd(() => server.close());
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: ISSUER, aud: AUDIENCE, sub: 'U1', login: 'ada', iat: now, exp: now + 3_000 };
  const headers = { good: { alg: 'EdDSA', kid: 'good', typ: 'JWT' }, curve: { alg: 'ES256', kid: 'curve' } };
  /** @param {'good' | 'curve'} kid */
  const sign = (kid) => new SignJWT(claims).setProtectedHeader(headers[kid]).sign(pairs[kid].privateKey);
  const valid = [await sign('good'), await sign('curve')];
  /** @param {Random} random */
  const weird = (random) => {
    const [head = '', body = '', signature = ''] = random.pick(valid).split('.');
    const header = () => encode(hostileObject(random, random.pick(Object.values(headers))));
    switch (random.below(8)) {
      case 0: return [header(), body, signature].join('.');
      case 1: return [head, encode(hostileObject(random, claims)), signature].join('.');
      case 2: return [header(), encode(hostileObject(random, claims)), encode(random.bytes(64))].join('.');
      case 3: return [head, body, encode(random.bytes(random.pick([0, 1, 63, 64, 65, 500])))].join('.');
      case 4: return [encode(hostileValue(random)), body, signature].join('.');
      case 5: return '.'.repeat(random.below(9)) + random.pick(['', head, 'a', '%', '\xff', '\xc3\xa9']);
      case 6: return [head, body, signature, ''].join(random.pick(['..', ',', ' ', '']));
      default: return [encode('{"alg":"none"}'), body, ''].join('.');
    } // prettier-ignore
  };
  return {
    env: {
      JWKS_URL: `http://127.0.0.1:${port}`,
      ISSUER,
      AUDIENCE,
      JWKS_MAX_AGE: '600',
    },
    control: show(valid[0]),
    seeds: [
      show(`${encode('['.repeat(9_000))}.a.b`),
      show(`${encode('{"kid":{},"alg":"EdDSA"}')}.${valid[0].split('.')[1]}.a`),
      show('\xff\xfe'),
      request('GET', [], show(valid[0])),
      request('GET', [`X-Auth-Assertion: ${valid[0]}`, `X-Auth-Assertion: ${valid[1]}`]),
    ],
    next: (random) => {
      if (random.oneIn(12)) return { text: nested(random, show(valid[0])), statuses: [400, 401, 411, 501] };
      const token = weird(random);
      // Some servers limit heads to less than the longest of these.
      return { text: show(token), statuses: isGood(token, valid) ? [200] : [400, 401, 414, 431] };
    },
    // Go itself answers a request about the server as a whole.
    entitled: (text) =>
      text.startsWith('OPTIONS * ') ||
      valid.some((token) => text.includes(token.slice(0, token.lastIndexOf('.')))),
  };
}

/**
 * Returns whether a token is a valid one, ignoring the unused bits of its last character.
 *
 * @param {string} token
 * @param {string[]} valid
 */
function isGood(token, valid) {
  return valid.some(
    (good) =>
      token.startsWith(good.slice(0, good.lastIndexOf('.') + 1)) &&
      signatureOf(token).equals(signatureOf(good)),
  );
}

/** @param {string} token */
function signatureOf(token) {
  return Buffer.from(token.split('.')[2] ?? '', 'base64url');
}
