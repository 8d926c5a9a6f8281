/**
 * Valid requests to start from. Secrets are written as `{{NAME}}` until they are sent.
 *
 * @typedef {[name: string, value: string, end?: string]} Field `end` ends its line, CR LF by
 *   default
 * @typedef {{ method: string, target: string, version: string, fields: Field[], body: string,
 *   framing: 'none' | 'length' | 'chunked' | 'both' | 'long' | 'short', chunks?: 'odd' | 'cut' |
 *   'trailers' | 'extensions' | undefined }} Request
 */

/** @type {Field[]} */
const WEBSOCKET = [
  ['Connection', 'Upgrade'],
  ['Upgrade', 'websocket'],
  ['Sec-WebSocket-Version', '13'],
  ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
];
/** @type {Field} */
const FORM = ['Content-Type', 'application/x-www-form-urlencoded'];
/** @type {Field} */
const JSON_TYPE = ['Content-Type', 'application/json'];

/**
 * The credentials that inputs may contain, and their header fields. `LIMITED` is for one service
 * only.
 *
 * @type {Record<'TOKEN' | 'LIMITED' | 'SESSION', Field>}
 */
export const CREDENTIALS = {
  TOKEN: ['Service-Key', '{{TOKEN}}'],
  LIMITED: ['Service-Key', '{{LIMITED}}'],
  SESSION: ['Cookie', 'a=1; service.session={{SESSION}}; b=2'],
};
const { TOKEN, LIMITED, SESSION } = CREDENTIALS;

/** A body that looks like a request. It has no credential, so it must have no effect. */
export const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: a\r\nX-Auth-User-Id: evil\r\n\r\n';

/**
 * @param {string} method
 * @param {string} target
 * @param {Field[]} [fields]
 * @param {string} [body]
 * @param {Request['framing']} [framing]
 * @returns {Request}
 */
function request(method, target, fields = [], body, framing = body === undefined ? 'none' : 'length') {
  return {
    method,
    target,
    version: 'HTTP/1.1',
    fields: [['Host', 'a'], ...fields],
    body: body ?? '',
    framing,
  };
}

const login = 'user=other%40example.com&password=correct+horse+battery+staple';
const create =
  'username=other%40example.com&password=correct+horse+battery+staple&name=x&scope=global%20purge_all';

/**
 * Pipelines of valid requests: every built-in endpoint, forwarded ones of every shape, handshakes.
 */
export const SEEDS = [
  [request('POST', '/login', [FORM], login)],
  [request('POST', '/login', [JSON_TYPE], '{"user":"other@example.com","password":"wrong"}')],
  [request('POST', '/logout', [SESSION], '')],
  [request('POST', '/tokens', [FORM], create)],
  [
    request(
      'POST',
      '/tokens',
      [JSON_TYPE],
      '{"username":"other@example.com","password":"x","services":["S"],"scope":"global"}',
    ),
  ],
  [request('POST', '/tokens', [FORM, ['Service-OTP', '123456']], create, 'chunked')],
  [request('GET', '/tokens', [SESSION])],
  [request('GET', '/tokens/self', [TOKEN])],
  [request('GET', '/tokens/0123456789abcdefghijkl', [SESSION])],
  [request('DELETE', '/tokens/0123456789abcdefghijkl', [SESSION])],
  [request('DELETE', '/tokens', [SESSION, JSON_TYPE], '{"data":[{"type":"token","id":"x"}]}')],
  [request('GET', '/customer/C1/tokens', [SESSION])],
  [request('GET', '/status')],
  [request('GET', '/status', [TOKEN, ['X-Auth-User-Id', 'evil']])],
  [request('GET', '/service/SVC1', [TOKEN])],
  [request('GET', '/service/SVC1/version/1?x=1', [LIMITED, ['Accept', '*/*'], ['User-Agent', 'fuzz']])],
  [request('HEAD', '/service/SVC1/x', [SESSION])],
  [request('POST', '/service/SVC1/purge_all', [TOKEN], '')],
  [request('POST', '/service/SVC1/purge/a%2Fb', [LIMITED, ['Service-Soft-Purge', '1']])],
  [request('POST', '/purge/http://www.example.com/a?x=1', [TOKEN])],
  [request('PURGE', '/any/where', [TOKEN])],
  [request('PUT', '/service/SVC1/x', [LIMITED, JSON_TYPE], '{"a":1}')],
  [request('POST', '/x', [TOKEN], SMUGGLED)],
  [request('POST', '/x', [TOKEN], SMUGGLED, 'chunked')],
  [request('DELETE', '/x', [TOKEN], SMUGGLED, 'chunked')],
  [request('GET', '/x', [TOKEN], SMUGGLED)],
  [request('PATCH', '/x', [SESSION, ['Sec-Fetch-Site', 'same-origin']], 'abc', 'chunked')],
  [request('POST', '/x', [SESSION, ['Origin', 'http://a']], 'abc')],
  [request('POST', '/x', [TOKEN, ['Expect', '100-continue']], 'abc')],
  [request('POST', '/login', [FORM, ['Expect', '100-continue']], login)],
  [
    request(
      'POST',
      '/x',
      [TOKEN, ['Connection', 'close, TE, X-Auth-User-Id'], ['TE', 'trailers']],
      'a',
      'chunked',
    ),
  ],
  [request('GET', '/billing/x', [SESSION])],
  [request('DELETE', '/user/engineer', [TOKEN])],
  [request('GET', '/switch', [TOKEN, ...WEBSOCKET])],
  [request('GET', '/service/SVC1/switch', [SESSION, ['Origin', 'http://a'], ...WEBSOCKET])],
  [request('GET', '/x', [TOKEN, ...WEBSOCKET])],
  [
    request('GET', '/x', [
      TOKEN,
      ['Connection', 'Upgrade, HTTP2-Settings'],
      ['Upgrade', 'h2c'],
      ['HTTP2-Settings', 'AA'],
    ]),
  ],
  [request('GET', '/a', [TOKEN]), request('GET', '/b', [LIMITED]), request('GET', '/c', [SESSION])],
  [request('POST', '/a', [TOKEN], 'abc', 'chunked'), request('GET', '/b')],
  [request('GET', '/a'), request('POST', '/b', [TOKEN], SMUGGLED)],
];
