import { shorten } from '../alter.js';
import { type Check, fine, type Finding } from '../check.js';
import { type ProbeResponse, valuesOf } from '../message.js';

const ELSEWHERE = 'latchkey-doctor.invalid';

/** Parameters that tell a login where to return to. */
const PARAMETERS: readonly string[] = [
  'return_to', 'returnTo', 'return', 'returnUrl', 'return_url', 'next', 'rd', 'redirect', 'redirect_to', 'redirect_uri', 'redirect_url',
  'redirectUrl', 'url', 'uri', 'target', 'to', 'continue', 'goto', 'dest', 'destination', 'service', 'origin', 'r', 'u',
]; // prettier-ignore

/** Paths at which most logins begin. */
const ENTRANCES: readonly string[] = ['/', '/login', '/_latchkey/'];
const PATHS: readonly string[] = [...ENTRANCES, '/logout', '/_latchkey/login', '/signin', '/oauth2/start', '/oauth2/sign_in', '/oauth2/sign_out']; // prettier-ignore

/** References that a browser resolves to another host. */
const PLACES: readonly string[] = [
  `https://${ELSEWHERE}/`,
  `//${ELSEWHERE}/`,
  `/\\${ELSEWHERE}/`,
  `https:${ELSEWHERE}/`,
];

/** Whether a link to the deployment can lead elsewhere, or inject fields into the response. */
export const redirects: Check = {
  name: 'redirects',
  title: 'Redirects',
  severity: 'serious',
  remedy: 'Redirect only to paths of the same origin: begin with one "/" and no "\\\\", as Latchkey requires for return_to. Write $request_uri, not $uri, and a fixed name, not $host or $http_host, into the Location of nginx.',
  async run(deployment) {
    const { marker } = deployment;
    const paths = [...new Set([...PATHS, ...deployment.options.paths])];
    const open = [
      ...paths.flatMap((path) => queriesAt(path).map((query) => ({ target: `${path}?${query}` }))),
      ...[`//${ELSEWHERE}/..`, `//${ELSEWHERE}/%2e%2e`, `/\\${ELSEWHERE}`, `//${ELSEWHERE}/x`, `/${ELSEWHERE}`].map((target) => ({ target })),
      ...ENTRANCES.map((target) => ({ target, host: ELSEWHERE })),
      ...ENTRANCES.map((target) => ({ target, fields: [['X-Forwarded-Host', ELSEWHERE]] as const })),
    ];
    const split = ['/', '/ldr/', '/login', ...deployment.options.publicPaths].flatMap((path) => [
      { target: `${path}%0d%0aX-Latchkey-Doctor:%20${marker}` },
      { target: `${path}?ldr=%0d%0aX-Latchkey-Doctor:%20${marker}&return_to=/%0d%0aX-Latchkey-Doctor:%20${marker}` },
    ]);
    const led = await Promise.all(open.map(async (probe) => lines(await deployment.send(probe), probe, leadsElsewhere)));
    const wrote = await Promise.all(split.map(async (probe) => lines(await deployment.send(probe), probe, (answer) => valuesOf(answer, 'x-latchkey-doctor').join())));
    const findings = [
      ...finding('A link to the deployment can lead to another site', 'warning', led.flat()),
      ...finding('A link can inject headers into the response', 'serious', wrote.flat()),
    ];
    return findings.length > 0 ? { findings, seen: '' } : fine(`${open.length + split.length} links lead to no other site`);
  },
}; // prettier-ignore

/** Returns queries with every parameter. All places are tried only where most logins begin. */
function queriesAt(path: string): string[] {
  const places = ENTRANCES.includes(path) ? PLACES : PLACES.slice(0, 1);
  return places.map((place) => PARAMETERS.map((name) => `${name}=${encodeURIComponent(place)}`).join('&'));
}

function leadsElsewhere(answer: ProbeResponse): string {
  return valuesOf(answer, 'location').filter((to) => /^(?:https?:)?[/\\]*latchkey-doctor\.invalid/i.test(to)).join();
} // prettier-ignore

function lines(
  answer: ProbeResponse,
  { target, host }: { target: string; host?: string },
  shows: (answer: ProbeResponse) => string,
): string[] {
  const shown = shows(answer);
  if (shown === '') return [];
  const short = target.length > 100 ? `${target.slice(0, 100)}...` : target;
  return [`GET ${short}${host === undefined ? '' : ` with Host: ${host}`}: ${answer.status} ${shown}`];
}

function finding(summary: string, severity: Finding['severity'], evidence: readonly string[]): Finding[] {
  return evidence.length === 0 ? [] : [{ severity, summary, evidence: shorten(evidence) }];
}
