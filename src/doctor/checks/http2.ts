import { type Check, type Deployment, type Finding, fine, type Subject } from '../check.js';
import { echoedIn, shorten, withVerdict } from '../alter.js';
import type { Field } from '../message.js';
import { Http2Client } from '../http2-client.js';
import { METHODS, TARGETS } from '../override-names.js';
import { IDENTITY_HEADERS } from '../spellings.js';
import { describeAnswer, verdictOf } from '../verdict.js';

const NAMES: readonly string[] = IDENTITY_HEADERS.map((name) => name.toLowerCase());

type Change = readonly [label: string, fields: readonly Field[], trailers?: readonly Field[]];

/**
 * Returns fields that HTTP/2 can carry, and that a server must not translate to HTTP/1.1 for the
 * API.
 */
function changesOf(marker: string, open: string): readonly Change[] {
  const forged = NAMES.map((name, i): Field => [name, `${marker}h${i}h`]);
  const inValue = NAMES.map((name, i) => `${name}: ${marker}h${i}h`).join('\r\n');
  return [
    ['unchanged', []],
    ['forged identity headers', forged],
    ...['_', '.', '~'].map((character): Change => [
      `forged identity headers with ${character}`,
      forged.map(([name, value]) => [name.replaceAll('-', character), value] as const),
    ]),
    ['forged identity headers twice', [...forged, ...forged]],
    ['forged identity headers in trailers', [['te', 'trailers']], forged],
    ['forged superuser', NAMES.map((name) => [name, 'superuser'] as const)],
    ['forged superuser with _', NAMES.map((name) => [name.replaceAll('-', '_'), 'superuser'] as const)],
    ['method overrides', METHODS.map((name) => [name.toLowerCase(), 'OPTIONS'] as const)],
    ['target overrides', TARGETS.map((name) => [name.toLowerCase(), open] as const)],
    ['identity headers after a line break in a value', [['x-latchkey-doctor', `1\r\n${inValue}`]]],
    ['identity headers after a line break in a name', [[`x-ldr: 1\r\n${NAMES[0]}`, `${marker}h0h`]]],
    ['identity headers in upper case', forged.map(([name, value]) => [name.toUpperCase(), value] as const)],
    [SMUGGLED, [[SMUGGLED, 'chunked']]],
    ['connection', [['connection', NAMES.join(', ')]]],
    ['a host header in addition to :authority', [['host', 'localhost']]],
    [
      'upgrade',
      [
        ['upgrade', 'h2c'],
        ['connection', 'upgrade'],
      ],
    ],
    ['a content-length that does not match the body', [['content-length', '5']]],
  ];
}

/**
 * No HTTP/2 message has it (RFC 9113 8.2.2): a server that accepts it may forward it to the API.
 */
const SMUGGLED = 'transfer-encoding';

/**
 * Whether HTTP/2 requests are decided like HTTP/1.1, and keep their meaning when translated to it.
 */
export const http2: Check = {
  name: 'http2',
  title: 'HTTP/2',
  severity: 'serious',
  remedy: 'Update the server that terminates HTTP/2, make it refuse malformed fields and connection-specific ones (RFC 9113 8.2), and give HTTP/2 the same check and the same removal of headers as HTTP/1.1.',
  async run(deployment) {
    const client = await Http2Client.open(deployment);
    if (client === undefined) return fine('it is not offered');
    const findings: Finding[] = [];
    for (const subject of deployment.subjects)
      findings.push(...(await compare(deployment, client, subject))); // oxlint-disable-line no-await-in-loop -- one subject at a time
    const refused = withVerdict(deployment.subjects, 'refused').length;
    return findings.length > 0 ? { findings, seen: '' } : fine(`${client.protocol}: ${refused} refused paths stay refused, malformed fields too`);
  },
}; // prettier-ignore

function openPath({ subjects }: Deployment): string {
  return subjects.find(({ kind, verdict }) => kind === 'public' && verdict === 'passed')?.path ?? '/status';
}

/** Returns targets that HTTP/2 carries unchanged, and that a translation to HTTP/1.1 may alter. */
function targetsOf(deployment: Deployment, { path }: Subject): string[] {
  const { options } = deployment;
  const open = openPath(deployment);
  const authority = options.url.host;
  return [
    `${open}/..${path}`, `${open}/%2e%2e${path}`, `${open}/..;${path}`, `/${path}`, `/.${path}`, `${path}#${open}`, `${path}?${open}`,
    `${options.url.origin}${path}`, `//${authority}${path}`, path.slice(1), `${path} `, `${path}\t`, `${path} HTTP/1.1\r\nX-Ldr: 1`,
  ];
} // prettier-ignore

async function compare(deployment: Deployment, client: Http2Client, subject: Subject): Promise<Finding[]> {
  const entered: string[] = [];
  const shown: string[] = [];
  const taken: string[] = [];
  const { marker } = deployment;
  const markers = NAMES.map((_, i) => `${marker}h${i}h`);
  for (const [label, fields, trailers] of changesOf(marker, openPath(deployment))) {
    const answer = await client.get(subject, fields, subject.path, trailers); // oxlint-disable-line no-await-in-loop -- each has a connection of its own
    const line = `${subject.path} ${subject.view.name} over HTTP/2, ${label}: ${describeAnswer(answer)}`;
    if (subject.verdict === 'refused' && verdictOf(answer) === 'passed') entered.push(line);
    if (echoedIn(answer, markers).length > 0) shown.push(line);
    else if (label === SMUGGLED && subject.verdict === 'passed' && verdictOf(answer) === 'passed') taken.push(line);
  }
  for (const target of subject.verdict === 'refused' ? targetsOf(deployment, subject) : []) {
    const answer = await client.get(subject, [], target); // oxlint-disable-line no-await-in-loop -- as above
    if (verdictOf(answer) === 'passed') entered.push(`${JSON.stringify(target)} ${subject.view.name} over HTTP/2: ${describeAnswer(answer)}`);
  }
  const findings: Finding[] = [];
  if (entered.length > 0)
    findings.push({ severity: 'serious', summary: 'HTTP/2 lets a refused request in', evidence: shorten(entered) });
  if (shown.length > 0)
    findings.push({ severity: 'serious', summary: 'Forged identity headers reach the API over HTTP/2', evidence: shorten(shown) });
  if (taken.length > 0)
    findings.push({ severity: 'warning', summary: 'Transfer-Encoding is accepted over HTTP/2, so an API behind it may see the request end elsewhere', evidence: shorten(taken) });
  return findings;
} // prettier-ignore
