import { isIP } from 'node:net';
import { shorten } from '../alter.js';
import { type Advice, type Check, type Deployment, type Finding } from '../check.js';
import { type ProbeResponse, valuesOf } from '../message.js';

/** Patterns of framework errors that expose internals. */
const TRACES: readonly (readonly [string, RegExp])[] = [
  ['a JavaScript stack trace', /\bat (?:[\w.<>$[\] ]+ \()?(?:file:\/\/|node:)?\/?[\w./@-]+\.[cm]?[jt]sx?:\d+:\d+/],
  ['a Python stack trace', /Traceback \(most recent call last\)|File "[^"\n]+\.py", line \d+/],
  ['a Java stack trace', /\bat [\w$.]+\([\w$]+\.(?:java|kt|scala):\d+\)|Whitelabel Error Page/],
  ['a PHP error', /(?:Fatal error|Warning|Notice|Parse error)(?:<\/b>)?: .+ in (?:<b>)?\/[^\n<]+\.php/],
  ['a .NET stack trace', /\bat [\w.`]+\([^)\n]*\) in [^\n]+\.cs:line \d+/],
  ['a Ruby stack trace', /\.rb:\d+:in [`'][\w ]+'/],
  ['a Go stack trace', /goroutine \d+ \[running\]:|panic\.go:\d+/],
  ['a debugger', /Werkzeug Debugger|DEBUG = True|django\.core\.exceptions|Laravel.*Ignition/],
]; // prettier-ignore

/** Targets that are known to make frameworks fail. */
const ODD: readonly string[] = [
  '/%',
  '/%ff',
  '/%c0',
  '?a[b]=1&a=2&__proto__[x]=1',
  '?q=%ff%fe',
  "?id='",
  '?page=-1&limit=1e999',
];

/**
 * Whether errors show what only operators should see, and whether responses reveal more than
 * clients need.
 */
export const disclosure: Check = {
  name: 'disclosure',
  title: 'What responses disclose',
  severity: 'warning',
  remedy: 'Turn off the debug mode of the API and the proxy (NODE_ENV=production, display_errors=Off, DEBUG=False), and serve error pages of your own.',
  async run(deployment) {
    const open = deployment.subjects.filter(({ verdict }) => verdict === 'passed');
    const asked = ['/', ...open.map(({ path }) => path)];
    await Promise.all(
      [...new Set(asked)].flatMap((path) => ODD.map(async (odd) => deployment.send({ target: odd.startsWith('?') ? `${path}${odd}` : `${path.replace(/\/$/, '')}${odd}` }))),
    );
    const page = await deployment.send({ target: '/_latchkey/', fields: [['Accept', 'text/html']] });
    const evidence = TRACES.flatMap(([what, pattern]) => {
      const shown = deployment.answers.find(({ body }) => pattern.test(body));
      return shown === undefined ? [] : [`${what}, in a ${shown.status} response: ${(pattern.exec(shown.body)?.[0] ?? '').slice(0, 80)}`];
    });
    const findings: Finding[] = evidence.length === 0 ? [] : [{ severity: 'warning', summary: 'Error responses expose internals of a server', evidence: shorten(evidence) }];
    findings.push(...frameFindings(page));
    return { findings, advice: adviceOf(deployment, page), seen: 'error responses expose no internals' };
  },
}; // prettier-ignore

/**
 * Reports a Latchkey page that other sites can frame. It forbids that, but a proxy may remove the
 * field.
 */
function frameFindings(page: ProbeResponse): Finding[] {
  const isPage = page.status === 200 && /Latchkey/i.test(page.body) && valuesOf(page, 'content-type').some((type) => type.includes('html'));
  const isProtected = valuesOf(page, 'content-security-policy').some((value) => /frame-ancestors/.test(value)) || valuesOf(page, 'x-frame-options').length > 0;
  if (!isPage || isProtected) return [];
  return [
    {
      severity: 'warning',
      summary: 'The page of Latchkey can be framed by other sites',
      evidence: ['GET /_latchkey/ has neither Content-Security-Policy nor X-Frame-Options'],
      remedy: 'Let the proxy forward these headers of the page (nginx: no proxy_hide_header for them).',
    },
  ];
} // prettier-ignore

function adviceOf({ to, answers }: Deployment, page: ProbeResponse): Advice[] {
  const advice: Advice[] = [];
  const servers = new Set(answers.flatMap((answer) => [...valuesOf(answer, 'server'), ...valuesOf(answer, 'x-powered-by'), ...valuesOf(answer, 'x-aspnet-version')]));
  const telling = [...servers].filter((value) => /\d|php|express|asp/i.test(value));
  if (telling.length > 0)
    advice.push({ summary: `Responses name the software: ${telling.join(', ')}`, remedy: 'Leave the version out (nginx: server_tokens off; Express: app.disable("x-powered-by"); PHP: expose_php=Off).' });
  // Browsers ignore it for IP addresses (RFC 6797 8.1.1).
  const isStrict = [page, ...answers].some((answer) => valuesOf(answer, 'strict-transport-security').some((value) => !/max-age="?0\b/i.test(value)));
  if (to.isTls && isIP(to.host) === 0 && !isStrict)
    advice.push({ summary: 'Strict-Transport-Security is missing', remedy: 'Send "Strict-Transport-Security: max-age=31536000" (nginx: add_header ... always), so that browsers never use plain HTTP.' });
  return advice;
} // prettier-ignore
