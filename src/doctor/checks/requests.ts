import { counted } from '../../domain/counted.js';
import { findingsOf, tryOnRefused } from '../alter.js';
import type { Check } from '../check.js';
import type { Field, Probe } from '../message.js';
import { isOfLatchkey } from '../verdict.js';

const HANDSHAKE: readonly Field[] = [
  ['Connection', 'Upgrade'],
  ['Upgrade', 'websocket'],
  ['Sec-WebSocket-Version', '13'],
  ['Sec-WebSocket-Key', 'bGF0Y2hrZXktZG9jdG9yIQ=='],
];

/** Kinds of requests that proxy rules often exempt from the check. */
const EXEMPT: readonly (readonly [string, Partial<Probe>])[] = [
  ['a WebSocket handshake', { fields: HANDSHAKE }],
  ['HTTP/1.0', { version: '1.0' }],
  ['the User-Agent of a health check', { agent: 'kube-probe/1.30' }],
  ['the User-Agent of a load balancer', { agent: 'ELB-HealthChecker/2.0' }],
  ['the User-Agent of Prometheus', { agent: 'Prometheus/2.53.0' }],
  ['the User-Agent of curl', { agent: 'curl/8.5.0' }],
  ['the User-Agent of a Google health check', { agent: 'GoogleHC/1.0' }],
  ['Accept of a page', { agent: 'Mozilla/5.0', fields: [['Accept', 'text/html'], ['Sec-Fetch-Mode', 'navigate'], ['Sec-Fetch-Dest', 'document']] }],
  ['a JSON content type', { fields: [['Content-Type', 'application/json']] }],
  ['a gRPC content type', { fields: [['Content-Type', 'application/grpc'], ['TE', 'trailers']] }],
  ['credential headers named in Connection', { fields: [['Connection', 'close, Service-Key, Authorization, Cookie']] }],
  ['the User-Agent of a crawler', { agent: 'Mozilla/5.0 (compatible; Googlebot/2.1)' }],
  ['Referer of the page', { fields: [['Referer', '/_latchkey/']] }],
  ['X-Requested-With', { fields: [['X-Requested-With', 'XMLHttpRequest']] }],
  ['Accept for a picture', { fields: [['Accept', 'image/png'], ['Sec-Fetch-Dest', 'image']] }],
  ['Range', { fields: [['Range', 'bytes=0-9']] }],
  ['If-None-Match', { fields: [['If-None-Match', '*']] }],
  ['Expect', { fields: [['Expect', '100-continue']] }],
  ['Purpose: prefetch', { fields: [['Purpose', 'prefetch'], ['Sec-Purpose', 'prefetch']] }],
  ['a header that marks an internal request', { fields: [['X-Internal', '1'], ['X-Internal-Request', 'true'], ['X-Envoy-Internal', 'true'], ['X-Debug', '1'], ['X-Bypass-Auth', '1'], ['X-Skip-Auth', 'true']] }],
  ['a header that marks a subrequest', { fields: [['X-Middleware-Subrequest', 'middleware:middleware:middleware:middleware:middleware'], ['X-Auth-Request-Redirect', '/']] }],
  ['a header that marks a decision', { fields: [['X-Original-Method', 'OPTIONS'], ['X-Forwarded-Method', 'OPTIONS']] }],
  ['headers of a check named in Connection', { fields: [['Connection', 'close, X-Original-URI, X-Original-Method, X-Forwarded-Uri, X-Forwarded-Method']] }],
  ['a header that marks a verified client certificate', { fields: [['X-SSL-Client-Verify', 'SUCCESS'], ['X-Client-Verify', 'SUCCESS'], ['X-Forwarded-Client-Cert', 'By=x;Subject="CN=admin"'], ['Client-Cert', ':AA==:']] }],
]; // prettier-ignore

/** Whether requests of every kind need a credential. */
export const exemptions: Check = {
  name: 'exemptions',
  title: 'Requests that a rule may exempt',
  severity: 'serious',
  remedy: 'Let Latchkey check every request, whatever its headers: no condition of the proxy on the User-Agent, Upgrade, Origin, method or another header of the client may skip the check.',
  async run(deployment) {
    const { origin } = deployment.options.url;
    const near: typeof EXEMPT = [
      ['its own Referer', { fields: [['Referer', `${origin}/`]] }],
      ['its own Origin', { fields: [['Origin', origin], ['Sec-Fetch-Site', 'same-origin']] }],
    ];
    const hits = await tryOnRefused(deployment, ({ path }) =>
      [...EXEMPT, ...near].map(([label, probe]) => ({ label: `${path} with ${label}`, probe: { target: path, ...probe } })),
    );
    return {
      findings: findingsOf(hits, 'A request of another kind'),
      seen: `${hits.tried} requests of other kinds are refused`,
    };
  },
}; // prettier-ignore

/**
 * Whether OPTIONS needs a credential. The proxy may answer it without one, but the API only if a
 * route allows it.
 */
export const options: Check = {
  name: 'options',
  title: 'OPTIONS without a credential',
  severity: 'serious',
  remedy: 'Let Latchkey check OPTIONS like any other method, and configure cors in Latchkey instead of exempting OPTIONS in the proxy.',
  async run(deployment) {
    const hits = await tryOnRefused(deployment, ({ path }) => [
      { label: `OPTIONS ${path}`, probe: { method: 'OPTIONS', target: path } },
    ]);
    // A proxy that answers OPTIONS itself sends no content of the API.
    const isBare = ({ answer }: (typeof hits.passed)[number]) => answer.body === '' || isOfLatchkey(answer);
    const findings = [
      ...findingsOf({ ...hits, passed: hits.passed.filter((hit) => !isBare(hit)), unclear: hits.unclear }, 'OPTIONS'),
      ...findingsOf({ passed: [], unclear: hits.passed.filter(isBare), tried: 0 }, 'OPTIONS'),
    ];
    return { findings, seen: `${counted(hits.tried, 'request')} with OPTIONS refused` };
  },
}; // prettier-ignore
