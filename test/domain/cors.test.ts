import * as fc from 'fast-check';
import t from 'tap';
import { Cors, type CorsSettings } from '../../src/domain/cors.js';
import { METHODS } from '../../src/domain/methods.js';
import { property } from '../helpers/property.js';
import { forEachRow } from '../helpers/table.js';

const APP = 'https://app.example';
const SETTINGS: CorsSettings = {
  origins: [APP, 'http://127.0.0.1:5173', 'null'],
  methods: ['GET', 'POST'],
  headers: ['Content-Type', 'Service-Key'],
  expose: ['X-Request-Id', 'Retry-After'],
  credentials: true,
  max_age: 600_000,
};
const rules = (more: Partial<CorsSettings> = {}) => new Cors({ ...SETTINGS, ...more });

t.test('a response names an allowed origin only', (t) => {
  const exposed = ['Access-Control-Expose-Headers', 'X-Request-Id, Retry-After'];
  const credentials = ['Access-Control-Allow-Credentials', 'true'];
  for (const origin of [SETTINGS.origins].flat())
    t.same(rules().headersFor(origin), { varies: true, fields: ['Access-Control-Allow-Origin', origin, ...credentials, ...exposed] });
  t.same(rules({ credentials: false, expose: [] }).headersFor(APP), { varies: true, fields: ['Access-Control-Allow-Origin', APP] });
  const others = ['https://app.example/', 'https://APP.example', 'http://app.example', 'https://app.example:443', 'https://app.example.evil', 'https://a.app.example', `${APP}, ${APP}`, ` ${APP}`, '*', '', 'Null', '__proto__'];
  for (const origin of [undefined, ...others]) t.same(rules().headersFor(origin), { varies: true, fields: [] }, String(origin));
  t.same(rules({ origins: [APP] }).headersFor('null'), { varies: true, fields: [] }, '"null" only where it is listed');
  t.end();
}); // prettier-ignore

t.test('for every origin: responses do not depend on it, and never allow credentials', (t) => {
  for (const origins of ['*', ['*']] as const)
    for (const origin of [APP, 'null', undefined])
      t.same(rules({ origins }).headersFor(origin), {
        varies: false,
        fields: ['Access-Control-Allow-Origin', '*', 'Access-Control-Expose-Headers', 'X-Request-Id, Retry-After'],
      });
  t.end();
}); // prettier-ignore

const VARY = ['Vary', 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'];
const ALLOWED = ['Access-Control-Allow-Origin', APP, 'Access-Control-Allow-Credentials', 'true'];

t.test('a preflight is allowed as a whole or not at all', (t) => {
  const allowed = (methods: string) => [...ALLOWED, 'Access-Control-Allow-Methods', methods, 'Access-Control-Allow-Headers', 'Content-Type, Service-Key', 'Access-Control-Max-Age', '600', ...VARY];
  const ask = (more: object, cors = rules(), taken: readonly string[] = METHODS) =>
    cors.preflightFields({ origin: APP, method: 'POST', headers: '', ...more }, taken);
  forEachRow<[object, string]>(
    [
      [{}, 'GET, POST'],
      [{ method: 'GET' }, 'GET, POST'],
      [{ method: 'HEAD' }, 'GET, POST'],
      [{ headers: 'content-type,service-key' }, 'GET, POST'],
      [{ headers: ' SERVICE-KEY ,, Content-type' }, 'GET, POST'],
    ],
    ([more, methods]) => t.same(ask(more), allowed(methods), JSON.stringify(more)),
  );
  forEachRow<object>(
    [{ origin: 'https://evil.example' }, { origin: '' }, { method: 'PUT' }, { method: 'post' }, { method: '' }, { method: 'GET, POST' }, { headers: 'x-other' }, { headers: 'service-key, x-other' }, { headers: 'service_key' }, { headers: '*' }, { headers: `${','.repeat(4_096)}service-key` }],
    (more) => t.same(ask(more), VARY, JSON.stringify(more)),
  );
  t.same(ask({}, rules(), ['GET', 'HEAD']), VARY, 'a method that the route does not accept');
  t.same(ask({ method: 'GET' }, rules(), ['GET', 'HEAD']), allowed('GET'));
  t.same(ask({ method: 'DELETE' }, rules({ methods: null }), ['DELETE']), allowed('DELETE'));
  t.same(ask({ method: 'HEAD' }, rules({ methods: null }), ['GET', 'HEAD']), allowed('GET, HEAD'));
  t.same(ask({ method: 'HEAD' }, rules({ methods: ['POST'] })), VARY);
  t.same(
    ask({}, rules({ origins: '*', credentials: false, headers: [], max_age: 1_999, expose: [] })),
    ['Access-Control-Allow-Origin', '*', 'Access-Control-Allow-Methods', 'GET, POST', 'Access-Control-Max-Age', '1', ...VARY],
  );
  t.end();
}); // prettier-ignore

const header = fc.constantFrom('Content-Type', 'service-key', 'X-A', 'x-b', '');
property(
  'a preflight is allowed exactly if each part of it is',
  5_000,
  fc.record({
    origin: fc.constantFrom(APP, 'null', 'https://evil.example', '*', ''),
    method: fc.constantFrom(...METHODS, 'FOO'),
    asked: fc.array(header, { maxLength: 4 }),
    named: fc.option(fc.subarray([...METHODS], { minLength: 1 })),
    taken: fc.subarray([...METHODS]),
  }),
  ({ origin, method, asked, named, taken }) => {
    const cors = rules({ methods: named });
    const fields = cors.preflightFields({ origin, method, headers: asked.join(', ') }, taken);
    const isMethod = (each: string) => taken.some((known) => known === each) && (named?.some((known) => known === each) ?? true);
    const expected =
      (origin === APP || origin === 'null') &&
      (isMethod(method) || (method === 'HEAD' && isMethod('GET'))) &&
      asked.every((name) => ['', 'content-type', 'service-key'].includes(name.toLowerCase()));
    const said = fields.some((text) => text.startsWith('Access-Control-'));
    if (said !== expected) throw new Error(fields.join(' '));
  },
); // prettier-ignore
