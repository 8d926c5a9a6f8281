import { type Check, type Deployment, type Finding, fine } from '../check.js';
import { probeOf } from '../alter.js';
import { requestAfterUpgrade } from '../http2-client.js';
import type { Field, Probe } from '../message.js';
import { describeAnswer, verdictOf } from '../verdict.js';

/**
 * Messages whose end two servers may see in different places. Here both places coincide, so that no
 * bytes are left over.
 */
const AMBIGUOUS: readonly (readonly [string, Partial<Probe>])[] = [
  ['Transfer-Encoding with a space before the colon', { fields: [['Content-Length', '5']], lines: ['Transfer-Encoding : chunked'], body: '0\r\n\r\n' }],
  ['an unknown Transfer-Encoding', { fields: [['Content-Length', '5'], ['Transfer-Encoding', 'xchunked']], body: '0\r\n\r\n' }],
  ['Transfer-Encoding after a tab', { fields: [['Content-Length', '5']], lines: ['Transfer-Encoding:\x0bchunked'], body: '0\r\n\r\n' }],
  ['two Transfer-Encoding headers', { fields: [['Content-Length', '5'], ['Transfer-Encoding', 'identity'], ['Transfer-Encoding', 'chunked']], body: '0\r\n\r\n' }],
  ['a Content-Length with a sign', { fields: [['Content-Length', '+0']] }],
]; // prettier-ignore

/**
 * Transfer-Encoding overrides Content-Length, and the connection must be closed (RFC 9112 6.3).
 *
 * A server that keeps the connection open may still forward Transfer-Encoding alone.
 */
const BOTH: readonly [string, Partial<Probe>] = [
  'Content-Length and Transfer-Encoding',
  {
    fields: [
      ['Content-Length', '5'],
      ['Transfer-Encoding', 'chunked'],
    ],
    body: '0\r\n\r\n',
  },
];

/** Whether ambiguous requests are refused. */
export const framing: Check = {
  name: 'framing',
  title: 'Ambiguous requests',
  severity: 'serious',
  remedy: 'Refuse requests whose end is ambiguous (RFC 9112 6.3) at the outermost server: update it, and turn off settings like "insecure HTTP parser".',
  async run(deployment) {
    const lines = await Promise.all(AMBIGUOUS.map(async ([label, probe]) => accepted(deployment, label, probe)));
    const evidence = lines.flat();
    const both = await accepted(deployment, ...BOTH);
    const findings: Finding[] = [
      ...(evidence.length === 0 ? [] : [finding('Requests that two servers may parse differently are accepted', evidence)]),
      ...(both.length === 0 ? [] : [{ ...finding('Content-Length together with Transfer-Encoding is accepted, and the connection stays open', both), severity: 'warning' as const }]),
      ...(await hosts(deployment)),
      ...(await tunnel(deployment)),
      ...(await upgrades(deployment)),
    ];
    return findings.length > 0 ? { findings, seen: '' } : fine(`${AMBIGUOUS.length + 1} ambiguous requests and an upgrade to h2c are refused`);
  },
}; // prettier-ignore

function finding(summary: string, evidence: readonly string[]): Finding {
  return { severity: 'serious', summary, evidence };
}

/** Returns evidence if the message is not refused as malformed and the connection stays open. */
async function accepted(deployment: Deployment, label: string, probe: Partial<Probe>): Promise<string[]> {
  const fields = [['Connection', 'keep-alive'] as const, ...(probe.fields ?? [])];
  const answer = await deployment.send({ target: deployment.unknownPath, ...probe, fields });
  const isRefused = answer.status === 0 || [400, 411, 417, 421, 422, 501].includes(answer.status);
  return isRefused || !answer.isKept
    ? []
    : [`${label}: ${describeAnswer(answer)}, and the connection stays open`];
}

/**
 * Reports two accepted Host fields: two servers may choose different virtual hosts, one without a
 * check.
 */
async function hosts(deployment: Deployment): Promise<Finding[]> {
  const evidence = await accepted(deployment, 'two Host headers', {
    lines: ['Host: latchkey-doctor.invalid'],
  });
  if (evidence.length === 0) return [];
  return [{ ...finding('Requests with two Host headers are accepted', evidence), severity: 'warning' }];
}

/** Without a dynamic table for header fields: `Http2Client` does not keep one. */
const HTTP2_SETTINGS = 'AAMAAABkAAQAoAAAAAIAAAAAAAEAAAAA';

const UPGRADES: readonly (readonly [connection: string, upgrade: string])[] = [
  ['Upgrade, HTTP2-Settings', 'h2c'],
  ['Upgrade', 'h2c'],
  ['upgrade, http2-settings', 'H2C'],
  ['Upgrade, HTTP2-Settings', 'websocket, h2c'],
];

/** Reports paths at which a client can offer the API any protocol. */
async function upgrades(deployment: Deployment): Promise<Finding[]> {
  const { marker } = deployment;
  const open = deployment.subjects.filter(({ verdict }) => verdict === 'passed');
  const lines = await Promise.all(
    open.map(async (subject) => {
      const answer = await deployment.send(probeOf(subject, { probe: { fields: [['Connection', 'Upgrade'], ['Upgrade', marker]] } }));
      return answer.body.includes(marker) ? [`${subject.path} ${subject.view.name}: the response shows Upgrade: ${marker}`] : [];
    }),
  );
  const evidence = lines.flat();
  if (evidence.length === 0) return [];
  return [{ severity: 'serious', summary: 'Any Upgrade header of a client reaches the API, even h2c', evidence, remedy: ONLY_WEBSOCKET }];
} // prettier-ignore

const ONLY_WEBSOCKET =
  'Pass only an exact "Upgrade: websocket" on to the API, as the configurations in examples/ do (nginx: a map of $http_upgrade, not $http_upgrade itself).';

/** Reports upgrades to HTTP/2: they create a tunnel in which nothing is checked. */
async function tunnel(deployment: Deployment): Promise<Finding[]> {
  const targets = [...new Set([deployment.unknownPath, '/', ...deployment.subjects.map(({ path }) => path)])];
  const evidence: string[] = [];
  await Promise.all(
    targets.map(async (target) => {
      const keyed = deployment.subjects.find(({ path, view }) => path === target && view.fields.length > 0)?.view.fields ?? [];
      /* oxlint-disable no-await-in-loop -- few */
      for (const [connection, upgrade] of UPGRADES) {
        const fields = [['Connection', connection], ['Upgrade', upgrade], ['HTTP2-Settings', HTTP2_SETTINGS]] as const;
        for (const credential of keyed.length > 0 ? [[], keyed] : [[]]) {
          const { status } = await deployment.send({ target, fields: [...credential, ...fields] });
          if (status === 101 && !(await isChecked(deployment, target, [...credential, ...fields]))) evidence.push(`GET ${target} with Upgrade: ${upgrade} and Connection: ${connection}: 101`);
        }
      }
    }),
  );
  if (evidence.length === 0) return [];
  return [
    {
      ...finding('A client can switch to HTTP/2 without TLS, and bypass the check from then on', evidence),
      remedy: ONLY_WEBSOCKET,
    },
  ];
} // prettier-ignore

/**
 * Whether a request over the upgraded connection is refused exactly as without it. Then the proxy
 * itself speaks HTTP/2 and checks its requests, like h2o or Apache with h2c.
 */
async function isChecked(deployment: Deployment, target: string, fields: readonly Field[]): Promise<boolean> {
  const path = deployment.unknownPath;
  const usual = await deployment.send({ target: path });
  const upgraded = await requestAfterUpgrade(deployment, fields, target, path);
  return verdictOf(usual) === 'refused' && usual.body !== '' && upgraded.status === usual.status && upgraded.body === usual.body;
} // prettier-ignore
