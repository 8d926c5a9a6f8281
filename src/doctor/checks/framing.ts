import type { Check, Deployment, Finding } from '../check.js';
import type { Field, Probe } from '../client.js';
import { describeAnswer, findingOf, probeOf } from '../compare.js';

/** Two servers may see their ends in different places; here, these coincide. */
const AMBIGUOUS: readonly (readonly [string, Partial<Probe>])[] = [
  ['Transfer-Encoding with a space before the colon', { fields: [['Content-Length', '5']], lines: ['Transfer-Encoding : chunked'], body: '0\r\n\r\n' }],
  ['an unknown Transfer-Encoding', { fields: [['Content-Length', '5'], ['Transfer-Encoding', 'xchunked']], body: '0\r\n\r\n' }],
  ['Transfer-Encoding after a tab', { fields: [['Content-Length', '5']], lines: ['Transfer-Encoding:\x0bchunked'], body: '0\r\n\r\n' }],
  ['two Transfer-Encoding headers', { fields: [['Content-Length', '5'], ['Transfer-Encoding', 'identity'], ['Transfer-Encoding', 'chunked']], body: '0\r\n\r\n' }],
  ['a Content-Length with a sign', { fields: [['Content-Length', '+0']] }],
]; // prettier-ignore

/**
 * The connection must be closed (RFC 9112 6.3). A server that keeps it open may still forward
 * Transfer-Encoding alone.
 */
const BOTH: Partial<Probe> = { fields: [['Content-Length', '5'], ['Transfer-Encoding', 'chunked']], body: '0\r\n\r\n' }; // prettier-ignore

const ONLY_WEBSOCKET =
  'Pass only an exact "Upgrade: websocket" on to the API, as the configurations in examples/ do (nginx: a map of $http_upgrade, not $http_upgrade itself), and turn off the upgrade to h2c, which RFC 9113 3.1 no longer has.';

export const framing: Check = {
  name: 'framing',
  title: 'Ambiguous requests',
  remedy:
    'Refuse requests whose end is ambiguous (RFC 9112 6.3) at the outermost server: update it, and turn off settings like "insecure HTTP parser".',
  async run(deployment) {
    const ambiguous = await Promise.all(AMBIGUOUS.map(async ([label, probe]) => accepted(deployment, label, probe)));
    const both = await accepted(deployment, 'Content-Length and Transfer-Encoding', BOTH);
    const hosts = await accepted(deployment, 'two Host headers', { lines: ['Host: latchkey-doctor.invalid'] });
    const findings: Finding[] = [
      ...findingOf('serious', 'Requests that two servers may parse differently are accepted', ambiguous.flat()),
      ...findingOf('warning', 'Content-Length together with Transfer-Encoding is accepted, and the connection stays open', both),
      ...findingOf('warning', 'Requests with two Host headers are accepted', hosts),
      ...findingOf('serious', 'A client can switch to HTTP/2 without TLS, and bypass the check from then on', await tunnels(deployment), ONLY_WEBSOCKET),
      ...findingOf('serious', 'Any Upgrade header of a client reaches the API, even h2c', await upgrades(deployment), ONLY_WEBSOCKET),
    ];
    return { findings, seen: `${AMBIGUOUS.length + 1} ambiguous requests and an upgrade to h2c are refused` };
  },
}; // prettier-ignore

async function accepted(deployment: Deployment, label: string, probe: Partial<Probe>): Promise<string[]> {
  const fields = [['Connection', 'keep-alive'] as const, ...(probe.fields ?? [])];
  const answer = await deployment.send({ target: deployment.unknownPath, ...probe, fields });
  const isRefused = answer.status === 0 || [400, 411, 417, 421, 422, 501].includes(answer.status);
  return isRefused || !answer.isKept ? [] : [`${label}: ${describeAnswer(answer)}, and the connection stays open`];
} // prettier-ignore

async function upgrades(deployment: Deployment): Promise<string[]> {
  const { marker } = deployment;
  const open = deployment.subjects.filter(({ verdict }) => verdict === 'passed');
  const lines = await Promise.all(
    open.map(async (subject) => {
      const fields = [['Connection', 'Upgrade'], ['Upgrade', marker]] as const; // prettier-ignore
      const { body } = await deployment.send(probeOf(subject, { fields }));
      const line = `${subject.path} ${subject.view.name}: the response shows Upgrade: ${marker}`;
      return body.includes(marker) ? [line] : [];
    }),
  );
  return lines.flat();
}

/** Without a dynamic table for header fields. */
const HTTP2_SETTINGS = 'AAMAAABkAAQAoAAAAAIAAAAAAAEAAAAA';

const UPGRADES: readonly (readonly [connection: string, upgrade: string])[] = [
  ['Upgrade, HTTP2-Settings', 'h2c'],
  ['Upgrade', 'h2c'],
  ['upgrade, http2-settings', 'H2C'],
  ['Upgrade, HTTP2-Settings', 'websocket, h2c'],
];

async function tunnels(deployment: Deployment): Promise<string[]> {
  const anonymous = [deployment.unknownPath, '/'].map((target) => ({ target, credential: [] as readonly Field[] }));
  const subjects = deployment.subjects.map(({ path, view }) => ({ target: path, credential: view.fields }));
  const evidence = await Promise.all(
    [...anonymous, ...subjects].flatMap(({ target, credential }) =>
      UPGRADES.map(async ([connection, upgrade]) => {
        const fields: Field[] = [...credential, ['Connection', connection], ['Upgrade', upgrade], ['HTTP2-Settings', HTTP2_SETTINGS]];
        const { status } = await deployment.send({ target, fields });
        return status === 101 ? [`GET ${target} with Upgrade: ${upgrade} and Connection: ${connection}: 101`] : [];
      }),
    ),
  );
  return [...new Set(evidence.flat())];
} // prettier-ignore
