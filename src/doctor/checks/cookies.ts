import { type Check, type Deployment, type Finding, unknown } from '../check.js';
import { valuesOf } from '../message.js';

/** Paths at which cookies are often set, besides those of the operator. */
const COOKIE_PATHS: readonly string[] = ['/', '/login', '/_latchkey/', '/logout', '/tokens/self'];

/** Names of cookies that may carry a credential. */
const SESSION = /session|sess|sid|auth|token|jwt|login|remember/i;

/**
 * Whether cookies that carry credentials are protected from scripts, other sites and plain HTTP.
 */
export const cookies: Check = {
  name: 'cookies',
  title: 'Cookie flags',
  severity: 'serious',
  remedy: 'Set Secure, HttpOnly and SameSite, and no Domain, on every session cookie. Latchkey does so with listen.tls or a proxy in listen.trusted_proxies that sends X-Forwarded-Proto. Let no proxy rewrite them.',
  async run(deployment) {
    await Promise.all(COOKIE_PATHS.map(async (target) => deployment.send({ target })));
    await Promise.all([...COOKIE_PATHS, ...deployment.options.paths].map(async (target) => browse(deployment, target)));
    const seen = [...new Set(deployment.answers.flatMap((answer) => valuesOf(answer, 'set-cookie')))];
    if (seen.length === 0)
      return unknown('no response set a cookie; doctor does not log in, so check the Set-Cookie of a login yourself');
    const names = new Set(seen.map(nameOf));
    // Several servers may set a cookie of the same name with different flags.
    const findings = seen.flatMap((cookie) => findingsOf(deployment, nameOf(cookie), cookie));
    return { findings: findings.filter(({ evidence }, i) => findings.findIndex((one) => one.evidence.join() === evidence.join()) === i), seen: `${[...names].join(', ')}: flags are set` };
  },
}; // prettier-ignore

/**
 * Follows redirects like a browser: a page may begin a login that sets cookies in some of its
 * steps.
 */
async function browse(deployment: Deployment, target: string, steps = 3): Promise<void> {
  const answer = await deployment.send({ target, fields: [['Accept', 'text/html'], ['Sec-Fetch-Mode', 'navigate']] });
  const [to = ''] = valuesOf(answer, 'location');
  const { origin } = deployment.options.url;
  const next = URL.canParse(to, origin) ? new URL(to, origin) : undefined;
  if (next?.origin === origin && steps > 0) await browse(deployment, `${next.pathname}${next.search}`, steps - 1);
} // prettier-ignore

function nameOf(cookie: string): string {
  return (cookie.split('=', 1)[0] ?? '').trim();
}

function findingsOf({ to }: Deployment, name: string, cookie: string): Finding[] {
  const flags = new Map(
    cookie.split(';').slice(1).map((flag): [string, string] => {
      const [name = '', value = ''] = flag.trim().toLowerCase().split('=', 2);
      return [name, value];
    }),
  );
  const isSession = SESSION.test(name);
  const sameSite = flags.get('samesite');
  const serious: string[] = [];
  const minor: string[] = [];
  if (!flags.has('httponly')) (isSession ? serious : minor).push('HttpOnly is missing');
  if (!flags.has('secure')) (isSession && to.isTls ? serious : minor).push('Secure is missing');
  if (sameSite === undefined) (isSession ? serious : minor).push('SameSite is missing');
  if (sameSite === 'none') (isSession ? serious : minor).push('SameSite is None');
  const domain = (flags.get('domain') ?? '').replace(/^\./, '');
  if (domain !== '') (isSession && domain !== to.host ? serious : minor).push(`Domain is ${domain}, so other hosts get the cookie`);
  if (name.startsWith('__Host-') && (flags.get('path') !== '/' || flags.has('domain') || !flags.has('secure')))
    serious.push('__Host- needs Secure, Path=/ and no Domain, so browsers drop it');
  const evidence = [...serious, ...minor].map((line) => `${name}: ${line}`);
  if (evidence.length === 0) return [];
  return [{ severity: serious.length > 0 ? 'serious' : 'warning', summary: `The cookie ${name} lacks protection`, evidence }];
} // prettier-ignore
