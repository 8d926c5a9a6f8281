// src/doctor/checks: one file per group of checks.
// May import what doctor may.
// `CHECKS` in `examine.ts` lists them.

import { isIP } from 'node:net';
import type { Check, Deployment, Finding } from '../check.js';
import { kindOfAddress } from '../../net/pinned-lookup.js';
import { destinationOf, valuesOf, verdictOf } from '../client.js';
import { describeAnswer, findingOf } from '../compare.js';

export const redirects: Check = {
  name: 'redirects',
  title: 'Redirects past Latchkey',
  remedy:
    'Let the API build links with the host that clients use: keep upstreams.NAME.host: preserve, pass X-Forwarded-Proto and X-Forwarded-Host on, or set the public URL in the API (nginx: proxy_redirect).',
  async run(deployment) {
    const { options, subjects } = deployment;
    const paths = [...new Set(['/', ...options.paths, ...options.publicPaths])];
    const views = [[], ...subjects.map(({ view }) => view.fields).filter((fields) => fields.length > 0).slice(0, 1)];
    // Most servers redirect between a path with and without a slash at its end.
    const targets = paths.flatMap((path) => [path, path.endsWith('/') ? path.replace(/(?!^)\/$/, '') : `${path}/`]);
    await Promise.all(views.flatMap((fields) => targets.map(async (target) => deployment.send({ target, fields }))));
    const places = new Set(deployment.answers.flatMap((answer) => valuesOf(answer, 'location')));
    const findings = await Promise.all([...places].map(async (place) => examine(deployment, place)));
    return { findings: findings.flat(), seen: places.size === 0 ? 'no response redirects' : 'no Location leads past Latchkey' };
  },
}; // prettier-ignore

async function examine(deployment: Deployment, location: string): Promise<Finding[]> {
  const { url, upstream } = deployment.options;
  if (!URL.canParse(location, url.origin)) return [];
  const place = new URL(location, url.origin);
  if (place.origin === url.origin || !/^https?:$/.test(place.protocol)) return [];
  const isUpstream = place.origin === upstream?.origin;
  // Another public site, like that of an identity provider, is not the API.
  if (!isUpstream && place.hostname !== url.hostname && !isInternal(place.hostname)) return [];
  const answer = await deployment.send({ target: `${place.pathname}${place.search}` }, destinationOf(place));
  const verdict = verdictOf(answer);
  const evidence = [`Location: ${location}, which answers ${describeAnswer(answer)}`];
  if (place.hostname === url.hostname && !isUpstream && verdict !== 'passed') return [];
  return isUpstream || verdict === 'passed'
    ? findingOf('serious', 'A redirect leads past Latchkey', evidence)
    : findingOf('warning', 'A redirect names an internal address', evidence);
}

function isInternal(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) return kindOfAddress(host) === 'private';
  return !host.includes('.') || /\.(?:svc|local|internal|localhost)$/.test(host);
}

const COOKIE_PATHS: readonly string[] = ['/', '/login', '/_latchkey/', '/logout', '/tokens/self'];

const SESSION = /session|sess|sid|auth|token|jwt|login|remember/i;

export const cookies: Check = {
  name: 'cookies',
  title: 'Cookie flags',
  remedy:
    'Set Secure, HttpOnly and SameSite, and no Domain, on every session cookie. Latchkey does so with listen.tls or a proxy in listen.trusted_proxies that sends X-Forwarded-Proto. Let no proxy rewrite them.',
  async run(deployment) {
    const paths = [...COOKIE_PATHS, ...deployment.options.paths];
    await Promise.all(COOKIE_PATHS.map(async (target) => deployment.send({ target })));
    await Promise.all(paths.map(async (target) => browse(deployment, target)));
    const seen = new Set(deployment.answers.flatMap((answer) => valuesOf(answer, 'set-cookie')));
    if (seen.size === 0) {
      const unknown = 'no response set a cookie; doctor does not log in, so check the Set-Cookie of a login yourself';
      return { findings: [], seen: '', unknown };
    }
    const byEvidence = new Map([...seen].flatMap((cookie) => cookieFindings(deployment, cookie)).map((each) => [each.evidence.join(), each]));
    return { findings: [...byEvidence.values()], seen: `${[...new Set([...seen].map(nameOf))].join(', ')}: flags are set` };
  },
}; // prettier-ignore

/** Follows redirects like a browser: some steps of a login may set cookies. */
async function browse(deployment: Deployment, target: string, steps = 3): Promise<void> {
  const fields = [['Accept', 'text/html'], ['Sec-Fetch-Mode', 'navigate']] as const; // prettier-ignore
  const [to = ''] = valuesOf(await deployment.send({ target, fields }), 'location');
  const { origin } = deployment.options.url;
  const next = URL.canParse(to, origin) ? new URL(to, origin) : undefined;
  if (next?.origin === origin && steps > 0)
    await browse(deployment, `${next.pathname}${next.search}`, steps - 1);
}

function nameOf(cookie: string): string {
  return (cookie.split('=', 1)[0] ?? '').trim();
}

function cookieFindings({ to }: Deployment, cookie: string): Finding[] {
  const name = nameOf(cookie);
  const flags = new Map(
    cookie.split(';').slice(1).map((flag): [string, string] => {
      const [key = '', value = ''] = flag.trim().toLowerCase().split('=', 2);
      return [key, value];
    }),
  );
  const domain = (flags.get('domain') ?? '').replace(/^\./, '');
  const isBroken = name.startsWith('__Host-') && (flags.get('path') !== '/' || flags.has('domain') || !flags.has('secure'));
  const faults: readonly (readonly [isFault: boolean, isSerious: boolean, text: string])[] = [
    [!flags.has('httponly'), true, 'HttpOnly is missing'],
    [!flags.has('secure'), to.isTls, 'Secure is missing'],
    [!flags.has('samesite'), true, 'SameSite is missing'],
    [flags.get('samesite') === 'none', true, 'SameSite is None'],
    [domain !== '', domain !== to.host, `Domain is ${domain}, so other hosts get the cookie`],
  ];
  const lacks = faults.filter(([isFault]) => isFault);
  const isSerious = isBroken || (SESSION.test(name) && lacks.some(([, serious]) => serious));
  const lines = [
    ...(isBroken ? [`${name}: __Host- needs Secure, Path=/ and no Domain, so browsers drop it`] : []),
    ...lacks.map(([, , text]) => `${name}: ${text}`),
  ];
  return findingOf(isSerious ? 'serious' : 'warning', `The cookie ${name} lacks protection`, lines);
} // prettier-ignore

/** Offset in milliseconds beyond which one-time passwords and JWTs are refused or live too long. */
const SERIOUS_MS = 30_000;
const WARNING_MS = 10_000;
/** `Date` has a resolution of one second. */
const RESOLUTION_MS = 1_000;

export const clock: Check = {
  name: 'clock',
  title: 'The clock',
  remedy:
    'Synchronize the clock of the deployment by NTP (and the one that doctor runs on): expiry, one-time passwords and JWTs depend on it.',
  async run({ answers }) {
    const offsets = answers.flatMap((answer) => {
      const at = Date.parse(valuesOf(answer, 'date')[0] ?? '');
      if (Number.isNaN(at) || valuesOf(answer, 'age').length > 0) return [];
      const early = Math.min(at - (answer.sentAt - RESOLUTION_MS), 0);
      return [early < 0 ? early : Math.max(at - answer.receivedAt, 0)];
    });
    if (offsets.length === 0) return { findings: [], seen: '', unknown: 'no response has a Date header' };
    // One of several instances may be wrong, so the largest offset counts.
    const worst = offsets.reduce((a, b) => (Math.abs(a) > Math.abs(b) ? a : b));
    const size = Math.abs(worst);
    if (size < WARNING_MS) return { findings: [], seen: 'it agrees with the local clock' };
    const summary = `The clock is ${Math.round(size / 1_000)} seconds ${worst < 0 ? 'behind' : 'ahead of'} the local one`;
    const evidence = [`${offsets.length} responses with Date`];
    return { findings: findingOf(size < SERIOUS_MS ? 'warning' : 'serious', summary, evidence), seen: '' };
  },
};
