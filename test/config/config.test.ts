import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { warningsOf } from '../../src/config/warnings.js';
import { loadDirectory } from '../../src/config/directory.js';
import { ConfigError, formatFault } from '../../src/config/fault.js';
import { compilePolicy } from '../../src/config/policy.js';
import { METHODS } from '../../src/domain/methods.js';
import { readings } from '../../src/domain/path.js';
import { loadConfig } from '../../src/config/load.js';
import { configSchema } from '../../src/config/schema/config.js';
import { forEachRow } from '../helpers/table.js';
import { isObject } from '../../src/util/json.js';
import { temporaryFolder } from '../helpers/latchkey.js';

const folder = temporaryFolder(t);
const file = join(folder, 'f.yaml');
const UP = 'upstream: http://127.0.0.1:3000\n';
const ENV = { PORT: '8081', HOST: '0:1', EMPTY: '', URL: 'http://u:1', SOCKET: 'unix:/run/secret' };

/** The faults of a text as `LINE:COLUMN: message`, or the loaded value. */
function faults(
  text: string | Buffer,
  load: (file: string) => unknown = (f) => loadConfig(f, ENV),
): string[] {
  writeFileSync(file, text);
  try {
    load(file);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.faults.map((fault) => formatFault(fault).replace(`${file}:`, ''));
  }
}

t.test('config/latchkey.yaml equals the defaults', async (t) => {
  writeFileSync(file, UP);
  const smallest = loadConfig(file).config;
  const copy = join(folder, 'copy.yaml');
  writeFileSync(copy, readFileSync('config/latchkey.yaml'));
  t.same(loadConfig(copy).config, smallest);
  t.match(smallest, {
    listen: { host: '0.0.0.0', port: 8080, tls: null, trusted_proxies: [] },
    admin: { host: '127.0.0.1', port: 9901 },
    workers: 1,
    sessions: { idle_timeout: 1_800_000, absolute_timeout: 43_200_000 },
    login: { max_failures: 5, lockout: 900_000, max_concurrent_hashes: 2 },
    upstreams: {
      api: {
        connect_timeout: 2_000,
        response_timeout: 60_000,
        idle_timeout: 300_000,
        max_response_head: 65_536,
        retries: 1,
      },
    },
    store: { type: 'lmdb', path: join(folder, 'data') },
  });
  const text = readFileSync('config/latchkey.yaml', 'utf8');
  const sections = [smallest, ...Object.values(smallest), smallest.upstreams['api']];
  const keys = sections.filter((each) => isObject(each)).flatMap((each) => Object.keys(each));
  t.same(keys.filter((key) => !new RegExp(`^[ #]*${key}:|[{,] ${key}:`, 'm').test(text)), [], 'it lacks keys');
}); // prettier-ignore

const NO_URL =
  'expected a URL like http://127.0.0.1:3000 without user, query or fragment, or unix:// and the path of a socket';
const NO_SOCKET =
  'expected unix:// and the absolute path of a socket, like unix:///run/api.sock: at most 107 printable ASCII characters without spaces, "%", "?", "#", ":", "@", "\\" and empty, "." or ".." segments';

const WRONG_COLUMN = 'wrong indentation; begin keys of one mapping in the same column';
const TWO_KEYS =
  'two keys on one line; write each "key: value" on its own line, and keys of one mapping in the same column';

/** A name, the file, and its faults. */
type Row = [string, string | Buffer, string[]];

t.test('each fault of a configuration has its position and the fix', async (t) => {
  forEachRow<Row>(
    [
      ['empty', '', ['1:1: no upstream is set; the smallest configuration is "upstream: http://127.0.0.1:3000"']],
      ['unknown key', `${UP}lisen: {}`, ['2:1: unknown key "lisen" (did you mean "listen"?)']],
      ['a typo in the short form', 'Upstream: http://a', ['1:1: unknown key "Upstream" (did you mean "upstream"?)']],
      ['unknown key, deep', `${UP}login:\n  max_failure: 3`, ['3:3: unknown key "max_failure" (did you mean "max_failures"?)']],
      ['unknown key, nothing similar', `${UP}zzzzzz: 1`, ['2:1: unknown key "zzzzzz"']],
      ['a key of the other type', `${UP}store: { type: lmdb, url: "redis://a" }`, ['2:22: unknown key "url"; only the other type of store has it']],
      ['a port at the top', `${UP}port: 8080`, ['2:1: unknown key "port"; it is a key of listen, admin, or decision']],
      ['a duration of two units', `${UP}sessions: { idle_timeout: 1m30s }`, ['2:27: sessions.idle_timeout: expected a duration of one number and unit, like 250ms, 30s, 15m, 12h or 7d']],
      ['several upstreams, and no default', `upstreams: { a: { url: http://a }, b: { url: http://b } }\nroutes: [{ path: /a, action: a, upstream: a }]\ndefault_route: { auth: deny }`, []],
      ['a route without any upstream', `upstreams: { a: { url: http://a }, b: { url: http://b } }\nroutes: [{ path: /a, action: a }]\ndefault_route: { auth: deny }`, ['2:10: routes.0.upstream: there are several upstreams; write one of a, b']],
      ['a host with a port', `${UP}routes: [{ host: a:80, path: /a, action: a }]`, ['2:18: routes.0.host: expected a host name without a port, like git.example.com or "*.example.com"']],
      ['one path on two hosts', `${UP}routes:\n  - { host: A.example, path: /a, action: a }\n  - { host: "*.example", path: /a, action: b }\n  - { path: /a, action: c }\n  - { host: b.example, path: "/:x/c", action: a }\n  - { path: "/b/:y", action: b }`, []],
      ['one path twice on a host', `${UP}routes:\n  - { host: a.example, path: /a, action: a }\n  - { host: A.example, path: /a, action: b }`, ['4:30: routes.1.path: routes.0 already has /a for every method; remove one of them']],
      ['a key outside its section', `${UP}idle_timeout: 30m\ntls: {}`, ['2:1: unknown key "idle_timeout"; it is a key of sessions', '3:1: unknown key "tls"; it is a key of listen or store']],
      ['an empty list', `${UP}routes:\n  - { path: /a, methods: [], action: a }`, ['3:26: routes.0.methods: expected at least 1 entry, found an empty list']],
      ['flags of older YAML', `${UP}interface: { account_endpoints: yes, bearer: OFF }`, ['2:33: interface.account_endpoints: expected true or false, found text', '2:46: interface.bearer: expected true or false, found text']],
      ['quoted values', `${UP}interface: { bearer: "true" }\nlisten: { port: "8080" }`, ['2:22: interface.bearer: expected true or false, found text', '3:17: listen.port: expected a whole number from 0 to 65535, found text']],
      ['a quoted variable', `${UP}listen: { port: "\${PORT}" }`, ['2:17: listen.port: expected a whole number from 0 to 65535, found text']],
      ['a word of several keys', 'upstreams:\n  api: { url: http://a, timeout: 1s }', ['2:25: unknown key "timeout" (did you mean "connect_timeout", "response_timeout", "idle_timeout", or "wait_timeout"?)']],
      ['unknown key in a list', `${UP}routes:\n  - { path: /a, action: b, methds: [GET] }`, ['3:28: unknown key "methds" (did you mean "methods"?)']],
      ['duplicate key', `${UP}workers: 1\nworkers: 2`, ['3:1: this key is given twice']],
      ['__proto__', `${UP}__proto__: { a: 1 }`, ['2:1: unknown key "__proto__"']],
      ['names that are wrong', `${UP}policy:\n  roles: { "": {} }\n  scopes: { "a b": {} }`, ['3:12: policy.roles.: the name is wrong: expected text', '4:13: policy.scopes.a b: the name is wrong: a scope has no spaces']],
      ['a merge key', `${UP}sessions:\n  <<: { idle_timeout: 1m }`, ['3:3: merge keys ("<<") are not supported; write the keys out']],
      ['a type that JSON lacks', `${UP}listen: !!omap [ port: 1 ]\nsessions: !!set { idle_timeout }`, ['2:16', '3:17'].map((at) => `${at}: tags ("!name") are not supported; put a value that begins with "!" in quotes`)],
      ['a type that JSON has', `${UP}listen: !!map { host: !!str localhost, port: !!int 1 }`, []],
      ['a control character in a comment', `# a\n${UP}# b \0\0default_route: { auth: deny }\n`, ['3:5: a control character (U+0000); remove it, or write "\\u0000" in quotes']],
      ['a control character in a name', `${UP}policy: { roles: { "\x16a": { allow: ['*'] } } }\n`, ['2:21: a control character (U+0016); remove it, or write "\\u0016" in quotes']],
      ['a line that ends with CR alone', `${UP}# open\rdefault_route: { auth: deny }\n`, ['2:7: a carriage return without a line feed; end lines with LF or CRLF']],
      ['lines that end with CRLF', `${UP}# shut\ndefault_route: { auth: deny }\n`.replaceAll('\n', '\r\n'), []],
      ['an older version', `# A\n%YAML 1.1\n---\n${UP}interface: { bearer: yes }`, ['2:1: YAML 1.1 is not supported; remove this line']],
      ['the present version', `%YAML 1.2\n---\n${UP}`, []],
      ['a number that breaks two rules', `${UP}cache: { size: 1e20 }\nworkers: .inf`, ['2:16: cache.size: expected a whole number from 0 to 100000000, found 100000000000000000000', '3:10: workers: expected a number from 1 to 256, or auto, found Infinity']],
      ['an unclosed variable', `${UP}interface: { session_cookie: "\${NAME" }\nidentity: { assertion: { audience: "$\${x" } }`, ['2:30: this "${" is not closed; write ${NAME}, or "$${" for a literal "${"']],
      ['wrong type', `${UP}listen: { port: 80a }`, ['2:17: listen.port: expected a whole number from 0 to 65535, found text']],
      ['out of range', `${UP}listen: { port: 70000 }`, ['2:17: listen.port: expected a whole number from 0 to 65535, found 70000']],
      ['bad duration', `${UP}sessions: { idle_timeout: 30 }`, ['2:27: sessions.idle_timeout: expected a duration of one number and unit, like 250ms, 30s, 15m, 12h or 7d, found 30']],
      ['a duration of zero', `${UP}sessions: { idle_timeout: 0s }`, ['2:27: sessions.idle_timeout: expected a duration longer than 0']],
      ['contradiction', `${UP}sessions: { idle_timeout: 13h }`, ['2:27: sessions.idle_timeout: is longer than sessions.absolute_timeout']],
      ['unset variable', `${UP}listen: { host: "\${NOPE}" }`, ['2:17: the environment variable NOPE is not set']],
      ['empty text', `${UP}interface: { realm: "" }`, ['2:21: interface.realm: expected text, found none']],
      ['missing file', `${UP}listen: { host: "\${file:/none/x}" }`, ['2:17: the file /none/x cannot be read: no such file or directory (ENOENT)']],
      ['both shorthands', `${UP}upstreams: {}`, ['1:1: set either upstream or upstreams, not both']],
      ['not a URL', 'upstream: 127.0.0.1:3000', [`1:11: upstream: ${NO_URL}`]],
      ['not a URL, and no port', 'upstream: api.internal', [`1:11: upstream: ${NO_URL}`]],
      ['a user in the URL', 'upstream: http://a:b@c', [`1:11: upstream: ${NO_URL}`]],
      ['unknown upstream', 'upstreams: { api: { url: http://a } }\ndefault_route: { upstream: apy }', ['2:28: default_route.upstream: no upstream has this name (did you mean "api"?)']],
      ['an ambiguous upstream', 'upstreams: { a: { url: http://a }, b: { url: http://b } }', ['1:1: default_route.upstream: there are several upstreams; write one of a, b']],
      ['an upstream without an address', 'upstreams:\n  api: { retries: 2 }', ['2:8: upstreams.api: set url, or urls for several addresses']],
      ['url and urls', 'upstreams:\n  api: { url: http://a, urls: [http://b] }', ['2:8: upstreams.api: set either url or urls, not both']],
      ['an empty list of addresses', 'upstreams: { api: { urls: [] } }', ['1:27: upstreams.api.urls: expected at least one URL, found an empty list']],
      ['one of several that is not a URL', 'upstreams: { api: { urls: [http://a, b:80] } }', [`1:38: upstreams.api.urls.1: ${NO_URL}`]],
      ['a repeated address', 'upstreams: { api: { urls: [http://a, https://a, http://A:80/x] } }', ['1:49: upstreams.api.urls.2: urls.0 already has this address']],
      ['another version of HTTP', 'upstreams: { api: { url: http://a, protocol: h3 } }', ['1:46: upstreams.api.protocol: expected http1, h2 (HTTP/2 over TLS) or h2c (HTTP/2 without TLS)']],
      ['a version by its whole name', 'upstreams: { api: { url: http://a, protocol: http2 } }', ['1:46: upstreams.api.protocol: expected http1, h2 (HTTP/2 over TLS) or h2c (HTTP/2 without TLS)']],
      ['h2 without TLS', 'upstreams: { api: { url: http://a, protocol: h2 } }', ['1:46: upstreams.api.protocol: h2 is HTTP/2 over TLS; write https:// addresses, or protocol: h2c for HTTP/2 without TLS']],
      ['h2c with TLS', 'upstreams: { api: { urls: [http://a, https://b], protocol: h2c } }', ['1:60: upstreams.api.protocol: h2c is HTTP/2 without TLS; write http:// or unix:// addresses, or protocol: h2']],
      ['tls without https', 'upstreams: { api: { url: http://a, tls: {} } }', ['1:41: upstreams.api.tls: none of the addresses is an https:// URL; write https:// or remove tls']],
      ['a Unix socket', 'upstream: unix:///run/api.sock', []],
      ['Unix sockets and hosts', 'upstreams: { api: { urls: [unix:///run/a-1.sock, unix:///run/b, http://unix/run/c] } }', []],
      ...['unix:/run/api.sock', 'unix://run/api.sock', 'unix://localhost/run/api.sock', 'UNIX:///run/api.sock', 'unix:////run//./api.sock/', 'http+unix://%2Frun%2Fapi.sock', 'http+unix:///run/api.sock', 'http://unix:/run/api.sock', 'http://unix:/run/api.sock:/v1', 'unix:///run/api.sock:/v1', '"unix:///run/api.sock?x"', '"unix:///run/api.sock#x"', '/run/api.sock'].map(
        (url): Row => [`a near miss of a Unix socket: ${url}`, `upstream: ${url}`, [`1:11: upstream: ${NO_SOCKET}`]],
      ),
      ...['unix://user:password@host/run/api.sock', 'unix:///run/%61pi.sock', '"unix:///run/a\\0.sock"', 'unix:///run/a\\b', 'unix:///run/my api.sock', 'unix:///run/ä.sock', 'unix:///', `unix:///${'a'.repeat(107)}`].map(
        (url): Row => [`not a path of a socket: ${url}`, `upstream: ${url}`, [`1:11: upstream: ${NO_SOCKET}`]],
      ),
      ['the value of an environment variable is not printed', 'upstream: ${SOCKET}', [`1:11: upstream: ${NO_SOCKET}`]],
      ['a repeated Unix socket', 'upstreams: { api: { urls: [unix:///run/a, unix:///run/a] } }', ['1:43: upstreams.api.urls.1: urls.0 already has this address']],
      ['a Unix socket with tls', 'upstreams: { api: { urls: [https://a, unix:///run/a], tls: {} } }', ['1:60: upstreams.api.tls: a unix:// address has no TLS; remove tls, or list the socket as a separate upstream']],
      ['a Unix socket has no path of its own', `identity: { assertion: { enabled: true, issuer: http://i, audience: b, bind: request } }\nupstreams: { api: { urls: [unix:///run/a, http://a/v1] } }`, ['2:43: upstreams.api.urls.1: its path differs from that of urls.0; assertions that are bound to a request need the same path']],
      ['a collector on a Unix socket', `${UP}tracing: { otlp: unix:///run/a }`, ['2:18: tracing.otlp: expected an http:// or https:// URL without user, query or fragment']],
      ['a health check without a path', 'upstreams: { api: { url: http://a, health_check: { interval: 1s } } }', ['1:50: upstreams.api.health_check.path: expected text, found nothing']],
      ['a health check of another host', 'upstreams: { api: { url: http://a, health_check: { path: //b } } }', ['1:58: upstreams.api.health_check.path: expected a path like /healthz']],
      ['an invalid host', 'upstreams: { api: { url: http://a, host: "a b" } }', ['1:42: upstreams.api.host: expected preserve, upstream, or a host name']],
      ['a prefix of another path', `${UP}routes:\n  - { path: "/api/*", action: a, strip_prefix: /app }`, ['3:48: routes.0.strip_prefix: expected whole fixed segments that the path of the route begins with, without a trailing "/"']],
      ['half a segment', `${UP}routes:\n  - { path: "/api/*", action: a, strip_prefix: /ap }`, ['3:48: routes.0.strip_prefix: expected whole fixed segments that the path of the route begins with, without a trailing "/"']],
      ['a prefix that is longer than the path', `${UP}routes:\n  - { path: /api, action: a, strip_prefix: /api/v1 }`, ['3:44: routes.0.strip_prefix: expected whole fixed segments that the path of the route begins with, without a trailing "/"']],
      ['a prefix with a parameter', `${UP}routes:\n  - { path: "/t/:id/*", action: a, strip_prefix: "/t/:id" }`, ['3:50: routes.0.strip_prefix: expected whole fixed segments that the path of the route begins with, without a trailing "/"']],
      ['a prefix that ends in a slash', `${UP}routes:\n  - { path: "/api/*", action: a, strip_prefix: /api/ }`, ['3:48: routes.0.strip_prefix: expected whole fixed segments that the path of the route begins with, without a trailing "/"']],
      ['an empty prefix', `${UP}routes:\n  - { path: "/api/*", action: a, strip_prefix: / }`, ['3:48: routes.0.strip_prefix: expected a path like /api']],
      ['ambiguous: only one is stripped', `${UP}routes:\n  - { path: "/a/:x/c", action: a }\n  - { path: "/a/b/:y", action: a, strip_prefix: /a }`, ['4:13: routes.1.path: /a/b/:y and /a/:x/c (routes.0) both match /a/b/c and neither is more specific; add a route for /a/b/c']],
      ['ambiguous: only one takes a body', `${UP}routes:\n  - { path: "/a/:x/c", action: a }\n  - { path: "/a/b/:y", action: a, body_on_read: allow }`, ['4:13: routes.1.path: /a/b/:y and /a/:x/c (routes.0) both match /a/b/c and neither is more specific; add a route for /a/b/c']],
      ['a body on methods that do not read', `${UP}routes:\n  - { path: /a, action: a, methods: [POST], body_on_read: allow }`, ['3:59: routes.0.body_on_read: the route has neither GET nor HEAD; remove body_on_read']],
      ['another word for body_on_read', `${UP}default_route: { body_on_read: yes }`, ['2:32: default_route.body_on_read: expected refuse or allow']],
      ['a repeated route', `${UP}routes:\n  - { path: /a/:x, action: a }\n  - { path: /a/:y, action: b }`, ['4:13: routes.1.path: routes.0 already has /a/:x, which is the same path, for every method; remove one of them']],
      ['route without action', `${UP}routes:\n  - { path: /a }`, ['3:5: routes.0: expected an action, or auth: none or auth: deny']],
      ['a check that nobody makes', `${UP}routes:\n  - { path: "/a/:id", auth: none, action: a, service: id }`, ['action', 'service'].map((key, i) => `3:${[43, 55][i]}: routes.0.${key}: has no effect with auth: none, which lets everybody through; remove one of them`)],
      ['service that is not a parameter', `${UP}routes:\n  - { path: "/s/:service_id", action: a, service: servce_id }`, ['3:51: routes.0.service: the path has no parameter of this name (did you mean "service_id"?)']],
      ['built-in endpoint', `${UP}routes:\n  - { path: /tokens/x, action: a, methods: [DELETE] }`, ["3:13: routes.0.path: /tokens/x is a built-in endpoint; remove the route"]],
      ['star in the middle', `${UP}routes:\n  - { path: "/a*", action: a }`, ['3:13: routes.0.path: ":name" and "*" must be whole segments']],
      ['trailing slash', `${UP}routes:\n  - { path: /a/, action: a }`, ['3:13: routes.0.path: no request can have this path: empty segments and a trailing "/" are never matched; write /a']],
      ['dot segment', `${UP}routes:\n  - { path: /a/../b, action: a }`, ['3:13: routes.0.path: no request can have this path: "." and ".." segments are refused']],
      ['bytes that are not UTF-8', `${UP}routes:\n  - { path: /a%c0%ae, action: a }`, ['3:13: routes.0.path: no request can have this path: the path has escapes that are not valid UTF-8']],
      ['another normal form', `${UP}routes:\n  - { path: /cafe%cc%81/:x, action: a }`, ['3:13: routes.0.path: is not in Unicode normalization form KC; write /caf%C3%A9/:x']],
      ['a full-width letter', `${UP}routes:\n  - { path: /%EF%BD%81dmin, action: a }`, ['3:13: routes.0.path: is not in Unicode normalization form KC; write /admin']],
      ['letters of any language', `${UP}routes:\n  - { path: /caf%c3%a9/%E6%97%A5%E6%9C%AC/%C5%81%C3%B3d%C5%BA, action: a }`, []],
      ['raw character', `${UP}routes:\n  - { path: "/a b", action: a }`, ['3:13: routes.0.path: no request can have this path: it has a character that must be percent-encoded']],
      ['a repeated parameter', `${UP}routes:\n  - { path: "/a/:id/:id", action: a }`, ['3:13: routes.0.path: two parameters have the same name; give each its own name']],
      ['service on a path without parameters', `${UP}routes:\n  - { path: /a, action: a, service: id }`, ['3:37: routes.0.service: the path has no parameter of this name; add it to the path']],
      ['a parameter before a "*"', `${UP}routes: [{ path: /b/:x, action: a }, { path: /b/*, action: b }, { path: /b/:x/:y, action: c }, { path: /*, action: d }, { path: /:z, action: e }]`, []],
      ['a "*" for no segment', `${UP}routes: [{ path: /:x, action: a }, { path: /:x/*, action: a }, { path: /*, action: b }]`, []],
      ['never reached: each number of segments', `${UP}routes:\n  - { path: /, action: a }\n  - { path: /:x, action: a }\n  - { path: /:x/*, action: a }\n  - { path: /*, action: b }`, ['6:13: routes.3.path: /* is never reached: routes.0 (/) handles its methods; remove one of them']],
      ['never reached', `${UP}routes:\n  - { path: /a, action: a, methods: [${METHODS.join()}] }\n  - { path: /a, action: b }`, ['4:13: routes.1.path: /a is never reached: routes.0 (/a) handles its methods; remove one of them']],
      ['never reached: HEAD belongs to GET', `${UP}routes:\n  - { path: /a, action: a, methods: [${METHODS.filter((each) => each !== 'HEAD').join()}] }\n  - { path: /a, action: b }`, ['4:13: routes.1.path: /a is never reached: routes.0 (/a) handles its methods; remove one of them']],
      ['reached, however it is escaped', `${UP}routes:\n  - { path: "/st%61tus/:x", action: a }`, []],
      ['one path in two spellings', `${UP}routes:\n  - { path: "/st%61tus", action: a }\n  - { path: /status, action: b }`, ['4:13: routes.1.path: routes.0 already has /st%61tus, which is the same path, for every method; remove one of them']],
      ['ambiguous: GET and HEAD', `${UP}routes:\n  - { path: "/a/:x/c", action: a, methods: [GET] }\n  - { path: "/a/b/:y", action: b, methods: [HEAD] }`, ['4:13: routes.1.path: /a/b/:y and /a/:x/c (routes.0) both match /a/b/c and neither is more specific; add a route for /a/b/c']],
      ['ambiguity of HEAD settled', `${UP}routes:\n  - { path: "/a/:x/c", action: a, methods: [GET] }\n  - { path: "/a/b/:y", action: b, methods: [HEAD] }\n  - { path: /a/b/c, action: c, methods: [GET] }`, []],
      ['ambiguous', `${UP}routes:\n  - { path: "/a/:x/c", action: a }\n  - { path: "/a/b/:y", action: b }`, ['4:13: routes.1.path: /a/b/:y and /a/:x/c (routes.0) both match /a/b/c and neither is more specific; add a route for /a/b/c']],
      ['ambiguous with *', `${UP}routes:\n  - { path: "/a/:x/c", action: a }\n  - { path: "/a/b/*", action: b }`, ['4:13: routes.1.path: /a/b/* and /a/:x/c (routes.0) both match /a/b/c and neither is more specific; add a route for /a/b/c']],
      ['ambiguity settled', `${UP}routes:\n  - { path: "/a/:x/c", action: a }\n  - { path: "/a/b/:y", action: b }\n  - { path: /a/b/c, action: c }`, []],
      ['no ambiguity: other methods', `${UP}routes:\n  - { path: "/a/:x/c", action: a, methods: [GET] }\n  - { path: "/a/b/:y", action: b, methods: [POST] }`, []],
      ['no ambiguity: one meaning', `${UP}routes:\n  - { path: "/a/:x/c", action: a }\n  - { path: "/a/b/:y", action: a }`, []],
      ["only the verbs of a route's methods count", `${UP}policy: { roles: { reader: { allow: ["*:read"] } } }\nroutes:\n  - { path: /a, action: a, methods: [GET] }\ndefault_route: { auth: deny }`, []],
      ['no role allows it', `${UP}policy: { roles: { reader: { allow: ["*:read"] } } }\nroutes:\n  - { path: /a, action: a, methods: [POST] }\ndefault_route: { auth: deny }`, ['4:25: routes.0.action: no role allows "a:write"; allow it under policy.roles, or use auth: deny']],
      ['no scope allows it', `${UP}policy: { scopes: { read: { allow: ["*:read", "billing:write"] } } }\nroutes:\n  - { path: /b, action: biling, methods: [POST] }\ndefault_route: { action: "api:read" }`, ['4:25: routes.0.action: no scope allows "biling:write" (did you mean "billing:write"?)', '2:47: policy.scopes.read.allow.1: "billing:write" covers no action of any route (did you mean "biling:write"?)'].toSorted((a, b) => Number.parseInt(a) - Number.parseInt(b))],
      ['default route that no role may use', `${UP}policy: { roles: { billing: { allow: ["billing:*"] } } }\nroutes: [{ path: /billing, action: billing }]`, ['1:1: default_route.action: no role allows "api:read"; allow it under policy.roles, or use auth: deny']],
      ['a deny with an unknown action', `${UP}policy: { roles: { engineer: { allow: ["*"], deny: ["biling:*"] } } }`, ['2:53: policy.roles.engineer.deny.0: "biling:*" covers no action of any route (did you mean "billing:*"?)']],
      ['a deny with an unknown verb', `${UP}policy: { service_limited: { deny: ["user:wrte"] } }`, ['2:37: policy.service_limited.deny.0: "user:wrte" covers no action of any route (did you mean "user:write"?)']],
      ['a pattern for the routes of another configuration', `${UP}policy: { service_limited: { deny: ["warehouse:write"] } }`, []],
      ['a pattern without a verb', `${UP}policy: { service_limited: { deny: [user] } }`, ['2:37: policy.service_limited.deny.0: expected a pattern over actions like billing:read, billing:*, *:read or *']],
      ['a resource that can only be read', `${UP}policy: { roles: { reader: { allow: ["*:read"] } } }\nroutes:\n  - { path: /a, action: a }`, []],
      ['one value instead of a list', `${UP}routes:\n  - { path: /a, action: a, methods: POST }`, ['3:37: routes.0.methods: expected a list, found text; write methods: [GET, HEAD]']],
      ['a list instead of a mapping', 'upstreams:\n  - http://a', ['2:3: upstreams: expected a mapping, found a list; write upstreams: { api: { url: http://127.0.0.1:3000 } }']],
      ['text instead of a mapping', 'just text', ['1:1: expected a mapping like { key: value }, found text']],
      ['unknown store', `${UP}store: { type: lmdbb }`, ['2:16: store.type: expected lmdb, redis or postgres']],
      ['unknown key of a store', `${UP}store: { type: lmdb, pth: x }`, ['2:22: unknown key "pth" (did you mean "path"?)']],
      ['unknown auth', `${UP}default_route: { auth: requird }`, ['2:24: default_route.auth: expected required, none or deny (did you mean "required"?)']],
      ['a parameter of another name', `${UP}routes:\n  - { path: "/s/:id", action: a, service: service_id }`, ['3:43: routes.0.service: the path has no parameter of this name (known: id)']],
      ['no directory file', `${UP}directory: { file: /none/d.yaml }`, ['2:20: directory.file: file not found; write its path, relative to the folder of this file']],
      ['two directories', `${UP}directory: { file: ./f.yaml, http: { url: "http://a" } }`, ['2:12: directory: set either file or http, not both']],
      ['account source without a scheme', `${UP}directory: { http: { url: "localhost:4000" } }`, ['2:27: directory.http.url: expected an http:// or https:// URL without user or fragment']],
      ['an invalid range', `${UP}listen: { trusted_proxies: [10.0.0.0/99] }`, ['2:29: listen.trusted_proxies.0: expected an address or a range like 10.0.0.0/8']],
      ['an origin with a path', `${UP}listen: { public_origins: [https://api.example/] }`, ['2:28: listen.public_origins.0: expected an origin as browsers send it, like https://api.example:8443, without a default port, a path or "/" at its end']],
      ['an identity header that frames the request', `${UP}identity: { headers: { role: Content-Length } }`, ['2:30: identity.headers.role: this header already has a different meaning; choose another name']],
      ['an identity header that is the credential', `${UP}identity: { headers: { role: service-key } }`, ['2:30: identity.headers.role: this header already has a different meaning; choose another name']],
      ['an identity header in another spelling of a reserved one', `${UP}identity: { headers: { role: X_Forwarded~For } }`, ['2:30: identity.headers.role: this header already has a different meaning; choose another name']],
      ['an identity header for the client address', `${UP}identity: { headers: { login: Client-IP } }`, ['2:31: identity.headers.login: this header already has a different meaning; choose another name']],
      ['same identity header in two spellings', `${UP}identity: { headers: { role: X-A, login: X_A } }`, ['2:30: identity.headers.role: this is already the header of login; choose another name']],
      ...['Host', 'Cookie', 'Service-Key', 'service_otp', 'Authorization', 'X-Auth-Role', 'X~Auth~Role', 'X-Auth-Assertion', 'X-Forwarded-User', 'X_Real_IP', 'X-HTTP-Method', 'Connection', 'Content-Length', 'Content_Type', 'X-Request-Id', 'Sec-Fetch-Site', 'Proxy-Url', 'traceparent'].map(
        (name): Row => [`a service in ${name}`, `${UP}routes:\n  - { path: /a, action: a, service: 'header:${name}' }`, [`3:37: routes.0.service: this header is not forwarded unchanged; use a header of your own, like header:Service-Id`]],
      ),
      ['a service in a header of the preset', `${UP}identity: { preset: kong }\nroutes:\n  - { path: /a, action: a, service: 'header:X-Consumer-Tags' }`, ['4:37: routes.0.service: this header is not forwarded unchanged; use a header of your own, like header:Service-Id']],
      ...['', 'a b', 'Fäh', '--'].map((name): Row => [`a service in a header named "${name}"`, `${UP}routes:\n  - { path: /a, action: a, service: 'header:${name}' }`, [`3:37: routes.0.service: this is not a valid header name; write header:Service-Id, for example`]]),
      ...['', 'a[b]', 'a b', 'a%5Fb', 'ä', '__'].map((name): Row => [`a service in a parameter named "${name}"`, `${UP}routes:\n  - { path: /a, action: a, service: 'query:${name}' }`, [`3:37: routes.0.service: programs may read this name differently; use letters, digits and "-._~", like query:service_id`]]),
      ['services that can be checked', `${UP}routes:\n  - { path: /a, action: a, service: 'header:X-Shop' }\n  - { path: /b, action: a, service: 'query:shop.id' }`, []],
      ['unknown method', `${UP}routes:\n  - { path: /a, action: a, methods: [FETCH] }`, ['3:38: routes.0.methods.0: expected a registered method like GET, or PURGE (did you mean "PATCH"?)']],
      ['same identity header twice', `${UP}identity: { headers: { role: X-A, login: x-a } }`, ['2:30: identity.headers.role: this is already the header of login; choose another name']],
      ['an assertion without issuer and audience', `${UP}identity: { assertion: { enabled: true } }`, ['2:24: identity.assertion.issuer: is required when assertions are enabled', '2:24: identity.assertion.audience: is required when assertions are enabled']],
      ['an issuer that is not a URL', `${UP}identity: { assertion: { issuer: auth.example.com } }`, ['2:34: identity.assertion.issuer: expected an http:// or https:// URL without user or fragment']],
      ['an assertion without a key to seal its keys', `${UP}identity: { assertion: { enabled: true, issuer: "https://a", audience: a } }\nstore: { type: redis, url: "redis://a" }`, ['3:8: store.sealing_key: is required when identity.assertion is enabled; make one with "openssl rand -hex 32"']],
      ['an assertion lifetime that is too long', `${UP}identity: { assertion: { ttl: 2h } }`, ['2:31: identity.assertion.ttl: expected 1s to 1h']],
      ['an assertion lifetime that is too short', `${UP}identity: { assertion: { ttl: 500ms } }`, ['2:31: identity.assertion.ttl: expected 1s to 1h']],
      ['keys that rotate too often', `${UP}identity: { assertion: { rotate_after: 3s } }`, ['2:40: identity.assertion.rotate_after: expected 4s or longer']],
      ['an algorithm with a shared secret', `${UP}identity: { assertion: { algorithm: HS256 } }`, ['2:37: identity.assertion.algorithm: expected EdDSA or ES256 (did you mean "ES256"?)']],
      ['no algorithm', `${UP}identity: { assertion: { algorithm: none } }`, ['2:37: identity.assertion.algorithm: expected EdDSA or ES256']],
      ['an assertion with an unknown binding', `${UP}identity: { assertion: { bind: session } }`, ['2:32: identity.assertion.bind: expected request']],
      ['addresses with different targets for a bound assertion', 'upstreams: { api: { urls: [http://a/x, http://b/y] } }\nidentity: { assertion: { enabled: true, issuer: "https://a", audience: a, bind: request } }', ['1:40: upstreams.api.urls.1: its path differs from that of urls.0; assertions that are bound to a request need the same path']],
      ['addresses with the same target', 'upstreams: { api: { urls: [http://a/x, http://b/x] } }\nidentity: { assertion: { enabled: true, issuer: "https://a", audience: a, bind: request } }', []],
      ['unknown key of the assertion', `${UP}identity: { assertion: { audiense: a } }`, ['2:26: unknown key "audiense" (did you mean "audience"?)']],
      ['unknown identity header', `${UP}identity: { headers: { rolle: X-A } }`, ['2:24: unknown key "rolle" (did you mean "role"?)']],
      ['an assertion header that is already in use', `${UP}identity: { assertion: { enabled: true, issuer: "https://a", audience: a, header: x-auth-role } }`, ['2:83: identity.assertion.header: this is already the header of role; choose another name']],
      ['an assertion header with another meaning', `${UP}identity: { assertion: { enabled: true, issuer: "https://a", audience: a, header: Cookie } }`, ['2:83: identity.assertion.header: this header already has a different meaning; choose another name']],
      ['unknown preset', `${UP}identity: { preset: konk }`, ['2:21: identity.preset: expected latchkey, oauth2-proxy, kong, remote-user (did you mean "kong"?)']],
      ['a header of the preset given twice', `${UP}identity: { preset: kong, headers: { role: X-Consumer-ID } }`, ['2:44: identity.headers.role: this is already the header of user_id; choose another name']],
      ['an identity header that describes the origin of a request', `${UP}identity: { headers: { role: X-Forwarded-For } }`, ['2:30: identity.headers.role: this header already has a different meaning; choose another name']],
      ['an identity header with a similar name', `${UP}identity: { headers: { login: X-Forwarded-Email } }`, []],
      ['a role that reads as a list', `${UP}identity: { preset: remote-user }\npolicy: { roles: { "a,b": { allow: ["*"] } } }`, ['3:27: policy.roles.a,b: its name has a comma, and with identity.preset: remote-user upstreams read the role as a list']],
      ['a role that is not sent', `${UP}identity: { preset: remote-user, headers: { role: null } }\npolicy: { roles: { "a,b": { allow: ["*"] } } }`, []],
      ['redis without an address', `${UP}store: { type: redis }`, ['2:8: store: set one of url, cluster and sentinel']],
      ['several kinds of Redis', `${UP}store: { type: redis, url: "redis://a", cluster: ["b:1"] }`, ['2:8: store: set one of url, cluster and sentinel']],
      ['not a Redis URL', `${UP}store: { type: redis, url: "localhost:6379" }`, ['2:28: store.url: expected redis://[user:password@]host[:port][/database] or rediss://, with every other character escaped']],
      ['a bad sealing key', `${UP}store: { type: redis, url: "redis://a", sealing_key: secret }`, ['2:54: store.sealing_key: expected 64 hexadecimal digits, as "openssl rand -hex 32" prints']],
      ['unknown key of redis', `${UP}store: { type: redis, url: "redis://a", prefx: x }`, ['2:41: unknown key "prefx" (did you mean "prefix"?)']],
      ['a word for on_store_failure', `${UP}on_store_failure: allow`, ['2:19: on_store_failure: expected deny, or { serve_cached_for: 60s }, found text']],
      ['a port instead of a listener', `${UP}listen: 8080`, ['2:9: listen: expected a mapping, found 8080; write listen: { port: 8080 }']],
      ['braces in a path inside braces', `${UP}routes:\n  - { path: /sites/{site}/x/{y}, action: site }`, ['3:20: unexpected text here; put a value with { } [ ] in quotes, or add the comma or line break before it']],
      ['a variable inside braces', `${UP}store: { type: lmdb, path: \${HOME}/x }`, ['2:29: unexpected text here; put a value with { } [ ] in quotes, or add the comma or line break before it']],
      ...['ready', '/', '/a/', '/:id', '/a/../b', '/a%20'].map((path): Row => ['a ready path', `${UP}listen: { ready_path: "${path}" }`, ['2:23: listen.ready_path: expected a path like /healthz, of letters, digits, ".", "_", "~" and "-"']]),
      ['a ready path that is taken', `${UP}listen: { ready_path: /tokens }`, ['2:23: listen.ready_path: is already a built-in endpoint; choose another path']],
      ['a route at the ready path', `${UP}listen: { ready_path: /ready }\nroutes: [{ path: /ready, action: a, methods: [GET] }]`, ['3:18: routes.0.path: /ready is a built-in endpoint; remove the route']],
      ['no space after a colon', 'upstream:http://a', ['1:1: expected a mapping like { key: value }, found text']],
      ['a size in another notation', `${UP}limits: { body_size: 64KB }`, ['2:22: limits.body_size: expected a size like 64KiB or 1MiB']],
      ['a duration in another notation', `${UP}limits: { head_timeout: 30sec }`, ['2:25: limits.head_timeout: expected a duration of one number and unit, like 250ms, 30s, 15m, 12h or 7d']],
      ['an action in upper case', `${UP}routes: [{ path: /a, action: Site }]`, ['2:30: routes.0.action: expected an action of lower-case letters, digits and "_", like billing or billing:read']],
      ['a word instead of a route', `${UP}default_route: deny`, ['2:16: default_route: expected a mapping, found text; write default_route: { auth: deny }']],
      ['a URL instead of a store', `${UP}store: redis://:secret@a`, ['2:8: store: expected lmdb, redis or postgres, found text; write store: { type: redis, url: redis://127.0.0.1:6379/0 }']],
      ['a file instead of a directory', `${UP}directory: d.yaml`, ['2:12: directory: expected a mapping, found text; write directory: { file: ./directory.yaml }']],
      ['a URL instead of an upstream', 'upstreams:\n  web: http://a', ['2:8: upstreams.web: expected a mapping, found text; write web: { url: http://127.0.0.1:3000 }']],
      ['patterns instead of a role', `${UP}policy: { roles: { a: ["*"] } }`, ['2:23: policy.roles.a: expected a mapping, found a list; write a: { allow: ["*:read"] }']],
      ['one port for two listeners', `${UP}listen: { port: 9901 }`, ['1:1: admin.port: is already the port of listen; choose another']],
      ['one port for two listeners, of one setting', `${UP}decision: { port: 81, grpc: { port: 81 } }`, ['2:37: decision.grpc.port: is already the port of decision; choose another']],
      ['one port for two listeners, of one address', `${UP}listen: { host: 127.0.0.1, port: 81 }\nadmin: { port: 81 }`, ['3:16: admin.port: is already the port of listen; choose another']],
      ['the same port on two addresses', `${UP}listen: { host: 127.0.0.2, port: 81 }\nadmin: { port: 81 }`, []],
      ['a key that lost its indentation', `${UP}listen:\n  host: "::"\nport: 1`, ['4:1: unknown key "port"; it is a key of listen, admin, or decision']],
      ['an only key that lost its indentation', `${UP}listen:\nport: 1`, ['2:8: listen: expected a mapping, found null; write listen: { port: 8080 }', '3:1: unknown key "port"; it is a key of listen, admin, or decision']],
      ...([
        ['two columns', 'listen:\n  host: "::"\n    port: 1', '4:1', WRONG_COLUMN],
        ['one column less', 'listen:\n    host: "::"\n  port: 1', '4:1', WRONG_COLUMN],
        ['a space at the top', ' listen: { port: 1 }', '1:11', TWO_KEYS],
        ['a first key without its indentation', 'listen:\nhost: a\n  port: 1', '3:7', TWO_KEYS],
        ['an entry of a list', 'routes:\n  - path: /a\n  action: a', '4:1', WRONG_COLUMN],
        ['between two columns of a list', 'routes:\n- path: /a\n  action: a\n methods: [GET]', '5:1', WRONG_COLUMN],
      ] as const).map(([name, text, at, fault]): Row => [name, UP + text, [`${at}: ${fault}`]]),
      ['cors', `${UP}cors: { origins: [https://app.example, "http://127.0.0.1:5173", "https://[::1]:8443", "null", capacitor://localhost, "chrome-extension://abcdef"], methods: null, headers: [Service-Key], expose: [X-Request-Id], credentials: true, max_age: 0s }\nroutes:\n  - { path: /a, action: a, cors: false }\n  - { path: /b, action: a, cors: { origins: "*" } }\ndefault_route: { cors: { origins: ["*"] } }`, []],
      ['cors without origins', `${UP}cors: {}`, ['2:7: cors.origins: expected a list of origins like [https://app.example, "null"], or "*" for every origin; write origins: [https://app.example]']],
      ['cors with a single origin', `${UP}cors: { origins: https://app.example }`, ['2:18: cors.origins: expected a list of origins like [https://app.example, "null"], or "*" for every origin, found text; write origins: [https://app.example]']],
      ...([
        ['a slash after an origin', 'https://app.example/', '; write https://app.example'],
        ['a path after an origin', 'https://app.example/a', '; write https://app.example'],
        ['the default port of HTTPS', 'https://app.example:443', '; write https://app.example'],
        ['the default port of HTTP', 'http://app.example:80', '; write http://app.example'],
        ['a host in upper case', 'https://App.Example', '; write https://app.example'],
        ['a scheme in upper case', 'HTTPS://app.example', '; write https://app.example'],
        ['a user in an origin', 'https://a@app.example', '; write https://app.example'],
        ['a query in an origin', 'https://app.example?a', '; write https://app.example'],
        ['a host that is no ASCII', 'https://b\u00fccher.example', '; write https://xn--bcher-kva.example'],
        ['a host alone', 'app.example', ', like https://app.example'],
        ['a host with a port', 'app.example:8080', ', like https://app.example'],
        ['an application with a path', 'capacitor://localhost/', ', like https://app.example'],
      ] as const).map(([name, origin, write]): Row => [name, `${UP}cors:\n  origins: ["${origin}"]`, [`3:13: cors.origins.0: expected an origin as browsers send it: scheme, host and a port that is not the default${write}`]]),
      ['a pattern of origins', `${UP}cors: { origins: ["https://*.app.example"] }`, ['2:19: cors.origins.0: origins are compared exactly; list each one, or write "*" alone for all']],
      ['every origin and one more', `${UP}cors: { origins: [https://a.example, "*"] }`, ['2:38: cors.origins.1: "*" must be the only origin; remove it or the others']],
      ['an origin that is nothing', `${UP}cors: { origins: [null] }`, ['2:18: cors.origins: expected a list of origins like [https://app.example, "null"], or "*" for every origin, found a list; write origins: [https://app.example]']],
      ['an origin that was expanded', `${UP}cors: { origins: ["\${URL}/"] }`, ['2:19: cors.origins.0: expected an origin as browsers send it: scheme, host and a port that is not the default, like https://app.example']],
      ['credentials for everybody', `${UP}cors: { origins: "*", credentials: true }`, ['2:36: cors.credentials: browsers refuse credentials with origins: "*"; list the origins']],
      ['credentials for everybody, on a route', `${UP}routes:\n  - { path: /a, action: a, cors: { origins: ["*"], credentials: true } }`, ['3:65: routes.0.cors.credentials: browsers refuse credentials with origins: "*"; list the origins']],
      ['an origin of the default route', `${UP}default_route: { cors: { origins: [https://a/] } }`, ['2:36: default_route.cors.origins.0: expected an origin as browsers send it: scheme, host and a port that is not the default; write https://a']],
      ['every header', `${UP}cors: { origins: "*", headers: ["*"], expose: ["*"] }`, ['2:33: cors.headers.0: expected a header name; list each header', '2:48: cors.expose.0: expected a header name; list each header']],
      ['a method that is not served', `${UP}cors: { origins: "*", methods: [FETCH] }`, ['2:33: cors.methods.0: expected a registered method like GET, or PURGE (did you mean "PATCH"?)']],
      ['unknown key of the cors of a route', `${UP}routes:\n  - { path: /a, action: a, cors: { origins: "*", header: [] } }`, ['3:50: unknown key "header" (did you mean "headers"?)']],
      ['true for a route', `${UP}routes:\n  - { path: /a, action: a, cors: true }`, ['3:34: routes.0.cors: expected a mapping like { origins: [https://app.example] }, or false, found true']],
      ['ambiguous: only one has cors', `${UP}routes:\n  - { path: "/a/:x/c", action: a }\n  - { path: "/a/b/:y", action: a, cors: { origins: "*" } }`, ['4:13: routes.1.path: /a/b/:y and /a/:x/c (routes.0) both match /a/b/c and neither is more specific; add a route for /a/b/c']],
      ['alias', `${UP}listen: &a { port: 1 }\nadmin: *a`, ['3:8: a value that begins with "*" needs quotes: write "*" or "*:read"; YAML aliases are not supported']],
      ['page in the way of an endpoint', `${UP}interface: { ui: { path: /tokens/page/ } }`, ['2:26: interface.ui.path: expected a path of its own like /_latchkey/ that starts and ends with "/"']],
      ['page at the top', `${UP}interface: { ui: { path: / } }`, ['2:26: interface.ui.path: expected a path of its own like /_latchkey/ that starts and ends with "/"']],
      ['page without a slash at its end', `${UP}interface: { ui: { path: /a/../b } }`, ['2:26: interface.ui.path: expected a path of its own like /_latchkey/ that starts and ends with "/"']],
      ['route where the page is', `${UP}routes:\n  - { path: /_latchkey/x, action: a, methods: [GET] }`, ["3:13: routes.0.path: /_latchkey/x is a built-in endpoint; remove the route"]],
      ['page in the way of the description', `${UP}interface: { ui: { path: /_latchkey/openapi.json/ } }`, ['2:26: interface.ui.path: expected a path of its own like /_latchkey/ that starts and ends with "/"']],
      ['route where the description is', `${UP}interface: { ui: { enabled: false } }\nroutes:\n  - { path: /_latchkey/openapi.json, action: a, methods: [GET] }`, ["4:13: routes.0.path: /_latchkey/openapi.json is a built-in endpoint; remove the route"]],
      ['route where the page would be', `${UP}interface: { ui: { enabled: false } }\nroutes:\n  - { path: /_latchkey/x, action: a }`, []],
      ...([
        ['a value in its key', 'listen: { port:8080 }', '2:11: unknown key "port"; write a colon and a space: "port: ..."'],
        ['a key without a colon, in brackets', 'listen: { port 8080 }', '2:11: unknown key "port"; write a colon and a space: "port: ..."'],
        ['a secret in its key', 'store: { type: redis, url: "redis://h:1", password:hunter22 }', '2:43: unknown key "password"; write a colon and a space: "password: ..."'],
        ['a key without its colon', 'listen\n  port: 8080', '2:1: a key spans several lines; is a ":" or a closing quote missing here or above?'],
        ['an open quote', 'interface:\n  vendor: "Service\nlisten: { host: "a" }', '3:11: this quote is not closed; write the closing quote after the value'],
        ['an open brace', 'listen: { port: 8080\nadmin: { port: 1 }', '2:9: this bracket is not closed; close it after the last entry'],
        ['a brace in a comment', 'listen: { port: 8080 # }', '2:9: this bracket is not closed; close it after the last entry'],
        ['brackets in quotes', "interface: { vendor: '[', session_cookie: \"{\"", '2:12: this bracket is not closed; close it after the last entry'],
        ['a bracket too many', 'listen: { port: 1 } }', '2:21: unexpected text here; put a value with { } [ ] in quotes, or add the comma or line break before it'],
        ['no comma', 'routes:\n  - { path: /a action: a }', '3:13: inside { } and [ ], write a comma between entries, and no indented block'],
        ['no comma between texts', 'routes: [{ path: /a, methods: ["GET" "POST"] }]', '2:38: a comma is missing before this'],
        ['no space after a dash', 'routes:\n  -{ path: /a, action: a }', `3:12: ${TWO_KEYS}`],
        ['a pattern without quotes', 'policy: { roles: { a: { allow: [*:read] } } }', '2:33: a value that begins with "*" needs quotes: write "*" or "*:read"; YAML aliases are not supported'],
      ] as const).map(([name, text, expected]): Row => [name, UP + text, [expected]]),
      ...([
        ['a number for the upstream', 'upstream: 3000', '1:11: upstream: expected text, found 3000; write upstream: http://127.0.0.1:3000'],
        ['a mapping for the upstream', 'upstream: { url: "http://a" }', '1:11: upstream: expected text, found a mapping; write upstream: http://127.0.0.1:3000'],
        ['a text for a route', `${UP}routes: [/a]`, '2:10: routes.0: expected a mapping, found text; write - { path: /reports/*, action: reports }'],
        ['a mapping for providers', `${UP}login: { oidc: { name: sso } }`, '2:16: login.oidc: expected a list, found a mapping; write oidc: [{ name: sso, title: Company login, issuer: https://idp.example, ... }]'],
        ...['/a/:id?', '/a/:id+/b', '/a/:id(b|c)', '/a/:id(\\\\d+)', '/a/:id[0-9]', '/a/:id{2}', '/a/:id.json', '/a/:id,x', '/a/:id~'].map((path): [string, string, string] =>
          [`a parameter with a pattern: ${path}`, `${UP}routes:\n  - { path: "${path}", action: a }`, '3:13: routes.0.path: a parameter is ":" and a name of letters, digits, "_" and "-", and stands for one whole segment of any value; for an optional one, write a second route without it']),
        ['a parameter in angle brackets', `${UP}routes:\n  - { path: /a/<id>, action: a }`, '3:13: routes.0.path: no request can have this path: it has a character that must be percent-encoded; write the parameter as ":id", not "<id>"'],
      ] as const).map(([name, text, expected]): Row => [name, text, [expected]]),
      ['several documents', `${UP}---\n${UP}`, ['2:1: expected one document, found several ("---")']],
      ['not UTF-8', Buffer.from([0x61, 0xff]), ['1:1: is not UTF-8 text']],
      ['several faults, in the order of the file', `${UP}lisen: 1\nworkers: many\nadmn: 2`, ['2:1: unknown key "lisen" (did you mean "listen"?)', '3:10: workers: expected a number from 1 to 256, or auto, found text', '4:1: unknown key "admn" (did you mean "admin"?)']],
    ], // prettier-ignore
    ([name, text, expected]) => t.same(faults(text), expected, name),
  );
  t.match(faults(`${UP}listen:\n\tport: 1`)[0], /^3:1: .*[Tt]ab/, 'tab');
  const bomb = `a: &a [1,1]\n${'bcdefghij'.split('').map((c, i) => `${c}: &${c} [*${'abcdefghi'[i]},*${'abcdefghi'[i]}]`).join('\n')}`; // prettier-ignore
  t.match(faults(bomb)[0], /aliases/, 'alias bomb');
});

t.test('environment variables and files expand inside strings', async (t) => {
  writeFileSync(join(folder, 'secret'), 'from-file\n');
  writeFileSync(file, 'upstream: ${URL}\nlisten:\n  port: ${PORT}\n  host: "0:0:0:0:0:0:${HOST}"');
  const { config } = loadConfig(file, ENV);
  t.match(config, {
    upstreams: { api: { url: 'http://u:1' } },
    listen: { port: 8081, host: '0:0:0:0:0:0:0:1' },
  });
  writeFileSync(
    file,
    `${UP}interface: { session_cookie: "\${file:secret}" }\nidentity: { assertion: { audience: "$\${x}" } }`,
  );
  t.match(loadConfig(file, ENV).config, {
    interface: { session_cookie: 'from-file' },
    identity: { assertion: { audience: '${x}' } },
  });
  writeFileSync(join(folder, 'secret'), Buffer.from('\xff\xfe', 'latin1'));
  t.throws(() => loadConfig(file, ENV), { message: /:2:30: the file secret is not UTF-8 text$/ });
});

t.test('a default, and a list from one variable', async (t) => {
  const env = { EMPTY: '', ONE: 'a.example', SOME: ' a.example, b.example,,"x: y",${file:/etc/hosts} ', PORTS: '80,x' };
  const hosts = (value: string) => {
    writeFileSync(file, `${UP}interface:\n  hosts: ${value}`);
    return loadConfig(file, env).config.interface.hosts;
  };
  t.same(hosts('${NONE:-a.example}'), ['a.example'], 'an unset variable');
  t.same(hosts('"${EMPTY:-a.example,b.example}"'), ['a.example', 'b.example'], 'an empty one, in quotes');
  t.same(hosts('${ONE:-x}'), ['a.example']);
  t.same(hosts('[ "${ONE}" ]'), ['a.example'], 'an entry of a list is one value');
  writeFileSync(join(folder, 'list'), 'a.example,b.example\n');
  t.same(hosts('${file:list}'), ['a.example', 'b.example']);
  writeFileSync(join(folder, 'list'), 'c.example\n');
  t.same(hosts('${file:list}'), ['c.example'], 'a file is read again');
  const issuer = '{ name: a, issuer: "https://a", audience: "${SOME}", subjects: [{ claims: { a: "${SOME}" }, customer_id: C1, role: user }] }';
  writeFileSync(file, `${UP}listen:\n  port: \${NONE:-0}\nadmin:\n  hosts: \${EMPTY}\njwt_issuers: [${issuer}]`);
  const { config, lines, written } = loadConfig(file, env);
  const parts = ['a.example', 'b.example', '"x: y"', '${file:/etc/hosts}'];
  t.match(config, { listen: { port: 0 }, admin: { hosts: [] }, jwt_issuers: [{ audience: parts, subjects: [{ claims: { a: env.SOME } }] }] });
  t.same(lines['jwt_issuers.0.audience.1'], 6);
  t.equal(written['jwt_issuers.0.audience.1'], '${SOME}');
  const fault = '3:10: interface.hosts.1: expected a host name without a port, like git.example.com';
  t.same(faults(`${UP}interface:\n  hosts: \${PORTS:-a,b:80}`, (f) => loadConfig(f, {})), [fault]);
  t.same(faults(`${UP}interface:\n  hosts: \${NO-}`), ['3:10: expected ${NAME}, ${NAME:-default} or ${file:PATH}; write "$${" for a literal "${"']);
}); // prettier-ignore

t.test('each fault of a directory', async (t) => {
  const hash = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA';
  const base = 'customers: [{ id: C1, name: One }]\n';
  const user = (more: string) =>
    `${base}users:\n  - { id: U1, customer_id: C1, login: a, role: superuser${more} }`;
  const rules = {
    roles: ['superuser', 'engineer'],
    scopes: ['global', 'purge_all'],
    maxLifetime: 86_400_000,
  };
  const load = (f: string) => loadDirectory(f, ENV, rules);
  const sha = 'ab'.repeat(32);
  const token = (more: string) =>
    `${user('')}\nservices: [{ id: S1, customer_id: C1, name: www }]\ntokens: [{ id: T1, user_id: U1, secret_sha256: ${sha}${more} }]`;
  forEachRow<[string, string, RegExp]>(
    [
      ['a typo in a customer id', 'customers: [{ id: acme, name: A }]\nservices: [{ id: S1, customer_id: acmee }]', /^2:35: services.0.customer_id: no customer has this id \(did you mean "acme"\?\)$/],
      ['unknown customer', `${base}services: [{ id: S1, customer_id: other }]`, /^2:35: services.0.customer_id: no customer has this id; write the id of one under customers$/],
      ['a number for an id', 'customers: [{ id: 1, name: a }]', /^1:19: customers\.0\.id: expected an id, found 1; put it in quotes$/],
      ['a mapping where customers are wanted', 'customers: { id: C1 }', /^1:12: customers: expected a list, found a mapping; write customers: \[\{ id: C1, name: Example \}\]$/],
      ['two ids', `customers: [{ id: C1, name: a }, { id: C1, name: b }]`, /^1:40: customers.1.id: given twice$/],
      ['two logins', user('').concat('\n  - { id: U2, customer_id: C1, login: A, role: superuser }'), /^4:\d+: users.1.login: given twice$/],
      ['unknown role', user('').replace('role: superuser', 'role: enginer'), /users.0.role: no role has this name \(did you mean "engineer"\?\)$/],
      ['no hash', user(', password_hash: "$2b$x"'), /users.0.password_hash: expected what "latchkey hash-password" prints/],
      ['both passwords', user(`, password: x, password_hash: "${hash}"`), /users.0.password: set either password or password_hash$/],
      ['a plain password that others can read', user(', password: x'), /users.0.password: .*latchkey hash-password.*chmod 600/],
      ['no base32', user(', otp_secret: "not base32!"'), /users.0.otp_secret: expected a base32 secret/],
      ['key and digest', `${base}legacy_keys: [{ customer_id: C1 }]`, /^2:15: legacy_keys.0: expected either key or key_sha256/],
      ['short digest', `${base}legacy_keys: [{ customer_id: C1, key_sha256: abc }]`, /legacy_keys.0.key_sha256: expected a SHA-256 of 64 hexadecimal digits/],
      ['a long key outside ASCII', `${base}legacy_keys: [{ customer_id: C1, key: "${'é'.repeat(513)}" }]`, /legacy_keys.0.key: expected at most 1024 bytes$/],
      ['a key with a line break', `${base}legacy_keys: [{ customer_id: C1, key: "a\\nb" }]`, /legacy_keys.0.key: expected a key that fits in a header/],
      ['a key like a token with a wrong checksum', `${base}legacy_keys: [{ customer_id: C1, key: lk${'0'.repeat(38)} }]`, /legacy_keys.0.key: expected another key: one with the form of a token and a wrong checksum/],
      ['a key with a space around it', `${base}legacy_keys: [{ customer_id: C1, key: "a " }]`, /legacy_keys.0.key: expected a key that fits in a header/],
      ['bad id', 'customers: [{ id: "a,b", name: x }]', /^1:19: customers.0.id: expected an id/],
      ['a token of nobody', token('').replace('user_id: U1', 'user_id: U2'), /^5:29: tokens.0.user_id: no user has this id \(did you mean "U1"\?\)$/],
      ['a token of a stranger', token('').replace('user_id: U1', 'user_id: nobody-here'), /tokens.0.user_id: no user has this id; write the id of one under users$/],
      ['a token with two names', token(', nam: x'), /^5:\d+: unknown key "nam" \(did you mean "name"\?\)$/],
      ['a restriction that is not known', token(', service: [S1]'), /unknown key "service" \(did you mean "services"\?\)$/],
      ['a word for a flag', token(', suspended: maybe'), /tokens\.0\.suspended: expected true or false, found text/],
      ['no rate', token(', rate: "1"'), /^5:\d+: tokens.0.rate: expected a rate like 600\/1m/],
      ['bits behind a prefix', token(', addresses: [10.0.0.1/8]'), /tokens.0.addresses.0: expected an address or a range/],
      ['no address', token(', addresses: []'), /tokens.0.addresses: expected an address or a range/],
      ['no services', token(', services: []'), /tokens.0.services: expected at least one service; leave services out/],
      ['services without a list', token(', services:'), /tokens.0.services: expected a list/],
      ['unknown service', token(', services: [S1, s2]'), /tokens.0.services.1: no service of the customer has this id \(did you mean "S1"\?\)$/],
      ['no scope', token(', scope: []'), /tokens.0.scope: expected at least one scope/],
      ['unknown scope', token(', scope: [global, purge_al]'), /tokens.0.scope.1: no scope has this name \(did you mean "purge_all"\?\)$/],
      ['a time without an offset', token(', expires_at: 2030-01-01'), /tokens.0.expires_at: expected a time like 2030-01-31T12:00:00Z/],
      ['a long life', token(', expires_at: 9999-01-01T00:00:00Z'), /tokens.0.expires_at: is more than 86400 seconds away, which tokens.max_lifetime forbids$/],
      ['the secret itself', token('').replace(sha, 'lk12345678901234567890123456789012345678'), /tokens.0.secret_sha256: expected a SHA-256 of 64 hexadecimal digits$/],
      ['the id of an endpoint', token('').replace('T1', 'self'), /tokens.0.id: expected another id/],
      ['a name with a line break', token(', name: "a\\nb"'), /tokens.0.name: expected 1 to 255 characters without control and invisible characters/],
      ['an empty name', token(', name: ""'), /tokens.0.name: expected 1 to 255 characters/],
      ['a token twice', token(` }, { id: T1, user_id: U1, secret_sha256: ${'cd'.repeat(32)}`), /^5:\d+: tokens.1.id: given twice$/],
      ['a secret twice', token(` }, { id: T2, user_id: U1, secret_sha256: ${sha.toUpperCase()}`), /tokens.1.secret_sha256: given twice$/],
      ['a legacy key', token('').concat(`\nlegacy_keys: [{ customer_id: C1, key_sha256: ${sha} }]`), /tokens.0.secret_sha256: a legacy key has the same/],
      ['half a surrogate pair in a customer', 'customers: [{ id: C1, name: "\\ud83d" }]', /customers.0.name: expected well-formed Unicode/],
      ['half a surrogate pair in a service', `${base}services: [{ id: S1, customer_id: C1, name: "\\ud83d" }]`, /services.0.name: expected well-formed Unicode/],
      ['half a surrogate pair in a name', user(', name: "\\ud83d"'), /users.0.name: expected well-formed Unicode/],
      ['half a surrogate pair in a login', user('').replace('login: a', 'login: "\\udd11"'), /users.0.login: expected well-formed Unicode/],
      ['half a surrogate pair in a token', token(', name: "\\ud83d"'), /tokens.0.name: expected 1 to 255 characters without control and invisible characters/],
      ['unknown key', user(', rol: x'), /unknown key "rol" \(did you mean "role"\?\)$/],
    ], // prettier-ignore
    ([name, text, expected]) => t.match(faults(text, load)[0], expected, name),
  );
  t.same(faults(user(`, password_hash: "${hash}"`), load), []);
  t.same(
    faults(token(', name: ci, scope: [purge_all], services: [S1], expires_at: "2020-01-01T00:00:00Z"'), load),
    [],
    'one that expired is no fault',
  );
  writeFileSync(file, user(', password: x'));
  chmodSync(file, 0o600);
  t.doesNotThrow(() => load(file), 'a plain password in a file of mode 0600');
});

t.test('identity providers: required settings and references', async (t) => {
  const provider = (more = '', roles = '{ claim: groups, map: { a: engineer } }') =>
    `    - { name: sso, title: T, issuer: https://idp.example, client_id: c, customer_id: C1, roles: ${roles}${more} }\n`;
  const login = (providers: string, rest = '  public_url: https://api.example\n') =>
    `${UP}login:\n${rest}  oidc:\n${providers}`;
  const twice = provider() + provider().replace('sso', 'two').replace('title', 'client_secret: x, title');
  forEachRow<Row>(
    [
      ['complete', login(provider()), []],
      ['no public_url', login(provider(), ''), ['3:3: login.public_url: is required with login.oidc; write the origin that browsers see']],
      ['a path behind the origin', login(provider(), '  public_url: https://api.example/\n'), ['3:15: login.public_url: expected an origin like https://api.example, without a path or "/" at its end; http:// only for a loopback address']],
      ['no TLS', login(provider(), '  public_url: http://api.example\n'), ['3:15: login.public_url: expected an origin like https://api.example, without a path or "/" at its end; http:// only for a loopback address']],
      ['loopback', login(provider(), '  public_url: http://127.0.0.1:8080\n'), []],
      ['an unknown role', login(provider('', '{ claim: g, map: { a: enginer } }')), ['5:119: login.oidc.0.roles.map.a: no such role in policy.roles (did you mean "engineer"?)']],
      ['an unknown role for the rest', login(provider('', '{ claim: g, default: admin }')), ['5:118: login.oidc.0.roles.default: no such role in policy.roles (known: superuser, engineer, billing, user)']],
      ['nobody', login(provider('', '{ claim: g }')), ['5:97: login.oidc.0.roles: no login would get a role; set map or default']],
      ['without openid', login(provider(', scopes: [email]')), ['5:146: login.oidc.0.scopes: openid is missing']],
      ['an issuer twice', login(twice), ['6:56: login.oidc.1.issuer: another provider has the same value; remove one of them']],
      ['an issuer without TLS', login(provider().replace('https://idp', 'http://idp')), ['5:38: login.oidc.0.issuer: expected an https:// URL; http:// only for a loopback address']],
      ['a name with a slash', login(provider().replace('sso', 'a/b')), ['5:15: login.oidc.0.name: expected a name of up to 32 lower-case letters, digits and "-"']],
      ['a parameter of Latchkey', login(provider(', authorization: { state: x }')), ['5:153: login.oidc.0.authorization: expected none of the parameters that Latchkey sets: client_id, response_type, response_mode, redirect_uri, scope, state, nonce, code_challenge, code_challenge_method, max_age, request, request_uri']],
      ['a signing client without its key', login(provider(', client_auth: private_key_jwt')), ['5:151: login.oidc.0.client_auth: private_key_jwt needs client_key, the file with the private key']],
      ['a client without its secret', login(provider(', client_auth: post')), ['5:151: login.oidc.0.client_auth: post needs client_secret']],
      ['a key without a use', login(provider(', client_key: none.pem')), ['5:150: login.oidc.0.client_key: has no effect without client_auth: private_key_jwt', '5:150: login.oidc.0.client_key: file not found; write its path, relative to the folder of this file']],
      ['a missing authority', login(provider(', tls: { ca: none.pem }')), ['5:149: login.oidc.0.tls.ca: file not found; write its path, relative to the folder of this file']],
      ['a discovery without TLS', login(provider(', discovery: http://idp.example/x')), ['5:149: login.oidc.0.discovery: expected an https:// URL without user or fragment; http:// only for a loopback address']],
      ['a session cookie of that name', `${login(provider())}interface: { session_cookie: __Host-Latchkey-login-x }`, ['6:30: interface.session_cookie: login.oidc uses cookies of such names; choose another one']],
      ['no page', `${login(provider())}interface: { ui: { enabled: false } }`, ['6:29: interface.ui.enabled: login.oidc requires the web page; set interface.ui.enabled: true']],
      ['a page elsewhere', `${login(provider())}interface: { ui: { host: login.example } }`, ['3:15: login.public_url: is not on interface.ui.host, where the web page is; write https://login.example']],
      ['Redis without a key', `${login(provider())}store: { type: redis, url: 'redis://127.0.0.1' }`, ['6:8: store.sealing_key: is required with login.oidc; make one with "openssl rand -hex 32"']],
      ['a login at no provider', `${login(provider())}on_unauthenticated: { login: sos }`, ['6:30: on_unauthenticated.login: no such provider in login.oidc (did you mean "sso"?)']],
      ['a login elsewhere', `${login(provider())}on_unauthenticated: page`, ['6:21: on_unauthenticated: expected json, login, or { login: NAME } with the name of a provider, found text']],
      ['nowhere to log in', `${UP}on_unauthenticated: login\ninterface: { ui: { enabled: false } }`, ['2:21: on_unauthenticated: browsers cannot be redirected to the login: the web page is off']],
      ['nowhere on this host', `${UP}routes: [{ path: /a, action: b, on_unauthenticated: login }]\ninterface: { ui: { host: a.example } }`, ['2:53: routes.0.on_unauthenticated: browsers cannot be redirected to the login: sessions on interface.ui.host are separate']],
    ],
    ([what, text, expected]) => t.same(faults(text), expected, what),
  );
  forEachRow<[map: string, expected: string]>(
    [
      ['{ readers: user, "2000": superuser, "1000": engineer }', 'readers 2000 1000'],
      ['{ 7: user,\n        a: user, "03": user,\n        1: user }', '7 a 03 1'],
    ],
    ([map, expected]) => {
      writeFileSync(file, login(provider('', `{ claim: g, map: ${map} }`)));
      t.equal(loadConfig(file).config.login.oidc[0]?.roles.order.join(' '), expected, 'the order of the file decides');
    },
  );
}); // prettier-ignore

t.test('for true instead of a section, the fault shows how to write it', async (t) => {
  const sections = Object.entries(configSchema.shape).filter(([, schema]) =>
    /expected (array|object|record)/.test(schema.safeParse(true).error?.issues[0]?.message ?? ''),
  );
  t.ok(sections.length > 15);
  for (const [name] of sections)
    t.match(faults(`${name === 'upstreams' ? '' : UP}${name}: true`), [
      new RegExp(`: ${name}: expected .*, found true; write ${name}: [[{]`),
    ]);
});

t.test('warns of an upstream with the address of the public port', async (t) => {
  const cases: readonly [text: string, lines: readonly number[]][] = [
    ['upstream: http://localhost:8080', [1]],
    ['workers: 2\nupstream: http://127.0.0.1:8080', [2]],
    ['listen: { port: 443 }\nupstream: https://[::1]', [2]],
    ['listen: { host: 10.1.1.1, port: 80 }\nupstreams:\n  api: { urls: ["http://10.1.1.2", "http://10.1.1.1"] }', [3]],
    ['listen: { host: 10.1.1.1 }\nupstream: http://127.0.0.1:8080', []],
    ['listen: { port: 0 }\nupstream: http://127.0.0.1', []],
    ['listen: { port: 443 }\nupstream: http://127.0.0.1', []],
    ['upstream: http://10.1.1.1:8080', []],
  ];
  for (const [text, expected] of cases) {
    const file = join(temporaryFolder(t), 'latchkey.yaml');
    writeFileSync(file, text);
    const warnings = warningsOf(loadConfig(file), null).filter((each) => each.includes('address of Latchkey'));
    t.same(warnings.map((warning) => Number(warning.split(':')[1])), expected, text);
  }
}); // prettier-ignore

t.test('identity.claims, and where JWTs are: names with another meaning', async (t) => {
  const issuer = (more: string) =>
    `${UP}jwt_issuers: [{ name: ci, issuer: 'https://ci.example', audience: [a, b], ${more}, subjects: [{ claims: { sub: a }, customer_id: C1, role: user }] }]\n`;
  forEachRow<Row>(
    [
      ['a header', issuer('header: Cf-Access-Jwt-Assertion'), []],
      ['a cookie', issuer('cookie: CF_Authorization'), []],
      ['a header and a cookie', issuer('header: X-Jwt, cookie: a'), ['2:98: jwt_issuers.0.cookie: set either header or cookie, not both']],
      ['the key', issuer('header: Service-Key'), ['2:83: jwt_issuers.0.header: this header already has a different meaning; choose another one']],
      ['the session', issuer('cookie: service.session'), ['2:83: jwt_issuers.0.cookie: Latchkey sets a cookie of this name; choose another one']],
      ['a key header', issuer('header: X-Jwt').replace(UP, `${UP}interface: { key_headers: [x_jwt] }\n`), ['3:83: jwt_issuers.0.header: this header already has a different meaning; choose another one']],
      ['a fact in the header', `${issuer('header: X-Jwt')}identity: { headers: { role: x_jwt } }\n`, ['3:30: identity.headers.role: this header already has a different meaning; choose another name']],
      ['claims', `${UP}identity: { claims: { X-Auth-Groups: groups, X-Auth-Org: /org/id } }\n`, []],
      ['a claim in the header of the role', `${UP}identity: { claims: { x_auth_role: groups } }\n`, ['2:36: identity.claims.x_auth_role: this is already the header of role; choose another name']],
      ['a claim in the key', `${UP}identity: { claims: { Service_Key: groups } }\n`, ['2:36: identity.claims.Service_Key: this header already has a different meaning; choose another name']],
      ['a broken pointer', `${UP}identity: { claims: { X-Auth-A: /a~b } }\n`, ['2:33: identity.claims.X-Auth-A: expected a JSON pointer: write "~" in a name as ~0, and "/" as ~1']],
    ],
    ([what, text, expected]) => t.same(faults(text), expected, what),
  );
}); // prettier-ignore

t.test('warns of claim names that will not match what was meant', async (t) => {
  const provider = '{ name: sso, title: SSO, issuer: https://idp.example, client_id: a, customer_id: C1, ';
  const roles = (claim: string, login = 'email') =>
    `${UP}login:\n  public_url: https://api.example\n  oidc:\n    - ${provider}login_claim: ${login},\n        roles: { claim: ${claim}, default: user } }\n`;
  const subject = (claims: string) =>
    `${UP}jwt_issuers:\n  - name: ci\n    issuer: https://ci.example\n    audience: a\n    subjects: [{ claims: { ${claims} }, customer_id: C1, role: user }]\n`;
  const cases: readonly [text: string, lines: readonly number[]][] = [
    [roles('realm_access.roles'), [6]],
    [roles('groups', 'user.email'), [5]],
    [roles('/realm_access/roles'), []],
    [subject('scope: orders:*, azp: "*a"'), []],
    [subject('kubernetes.io.namespace: shop'), [6]],
    [`${UP}identity: { claims: { X-Auth-Roles: realm_access.roles } }\n`, [2]],
    [roles('https://app.example/roles'), []],
  ];
  for (const [text, expected] of cases) {
    const file = join(temporaryFolder(t), 'latchkey.yaml');
    writeFileSync(file, text);
    t.same(warningsOf(loadConfig(file), null).map((warning) => Number(warning.split(':')[1])), expected, text);
  }
}); // prettier-ignore

t.test('warns of a public site that gets the Host of clients, unless host says so', async (t) => {
  const cases: readonly [upstreams: string, expected: RegExp | undefined][] = [
    ['upstream: https://api.service.example', /:1: .*api\.service\.example probably expects its own; write host: upstream in upstreams: \{ api: \{ url: \.\.\., host: upstream \} \}/],
    ['upstreams: { a: { urls: ["https://b.example:8443", "https://c.example"] } }', /:1: .*b\.example:8443 probably expects its own; write host: upstream \(or host: preserve/],
    ...['upstream', 'preserve', 'c.example'].map((host): [string, undefined] => [`upstreams: { a: { url: https://b.example, host: ${host} } }`, undefined]),
    ...['http://b.example', 'https://10.0.0.1', 'https://[2001:db8::1]', 'https://localhost', 'https://api', 'https://api.internal', 'https://api.ns.svc', 'https://api.ns.svc.cluster.local', 'unix:///run/a.sock'].map((url): [string, undefined] => [`upstream: ${url}`, undefined]),
  ];
  for (const [text, expected] of cases) {
    const file = join(temporaryFolder(t), 'latchkey.yaml');
    writeFileSync(file, text);
    const warnings = warningsOf(loadConfig(file), null);
    if (expected === undefined) t.same(warnings, [], text);
    else t.match(warnings, [expected], text);
  }
}); // prettier-ignore

t.test('routes with the same upstream may be one rule, whether they name it or not', async (t) => {
  for (const [upstreams, route, upstream] of [
    ['{ a: { url: http://u:1 }, b: { url: http://u:2 } }', '', 'a'],
    ['{ a: { url: http://u:1 } }', ', upstream: a', 'null'],
  ]) {
    const text = `upstreams: ${upstreams}\nroutes: [{ path: /x/*, action: api${route} }]\n`;
    writeFileSync(file, `${text}default_route: { action: api, upstream: ${upstream} }\n`);
    const { sites } = compilePolicy(loadConfig(file).config, {});
    for (const path of ['/x/', '/X/y']) {
      const ways = readings(path);
      const asked = { client: { host: '' }, method: 'GET', path };
      t.type(typeof ways === 'string' ? ways : sites.find({ ...asked, readings: ways }), Object, path);
    }
  }
});
