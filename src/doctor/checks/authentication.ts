import { counted } from '../../domain/counted.js';
import { type Alteration, findingsOf, tryOnRefused } from '../alter.js';
import { type Check, type Finding, fine, type Subject } from '../check.js';
import type { Field } from '../message.js';
import { describeAnswer } from '../verdict.js';

/** Whether requests need a credential at all. */
export const authentication: Check = {
  name: 'authentication',
  title: 'Requests without a credential',
  severity: 'serious',
  remedy:
    'Send every path through Latchkey, and name only public paths with auth: none. If a path is meant to be public, give it to doctor as --public instead of --path.',
  async run({ subjects }) {
    const anonymous = subjects.filter(({ view }) => view.fields.length === 0);
    const named = anonymous.filter(({ kind }) => kind === 'protected');
    const findings: Finding[] = named.flatMap((subject) => openFinding(subject, 'serious'));
    const rest = anonymous.filter(({ kind }) => kind === 'unknown');
    // Unless the operator named a path, this one stands for all.
    findings.push(...rest.flatMap((subject) => openFinding(subject, named.length > 0 ? 'warning' : 'serious')));
    return findings.length > 0 ? { findings, seen: '' } : fine(`${counted(named.length + rest.length, 'path')} refused`);
  },
}; // prettier-ignore

function openFinding({ path, kind, verdict, baseline }: Subject, severity: Finding['severity']): Finding[] {
  if (verdict === 'refused') return [];
  const evidence = [`GET ${path}: ${describeAnswer(baseline)}`];
  if (verdict === 'passed') {
    const summary = kind === 'unknown' ? 'A path that was not named is let in' : `${path} is let in`;
    return [{ severity, summary: `${summary} without a credential`, evidence }];
  }
  const summary = `${path} is not refused for a missing credential, and no request was clearly let in`;
  return [{ severity: 'warning', summary, evidence }];
}

const LONG = 'a'.repeat(40);
const EMPTY_JWT = 'eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJzdXBlcnVzZXIifQ.';

/** Returns credentials that nobody was given. */
function forged(keyHeader: string): readonly (readonly [string, readonly Field[]])[] {
  return [
    ['an unknown token', [[keyHeader, LONG]]],
    ['an empty token', [[keyHeader, '']]],
    ['an overlong token', [[keyHeader, LONG.repeat(40)]]],
    ['a token with odd characters', [[keyHeader, `'"%00*${LONG}`]]],
    ['two unknown tokens', [[keyHeader, LONG], [keyHeader, `${LONG}b`]]],
    ['an unknown bearer token', [['Authorization', `Bearer ${LONG}`]]],
    ['an empty bearer token', [['Authorization', 'Bearer ']]],
    ['a JWT without a signature', [['Authorization', `Bearer ${EMPTY_JWT}`]]],
    ['unknown tokens in other headers', ['X-API-Key', 'Api-Key', 'X-Auth-Token', 'X-Access-Token', 'X-Token'].map((name) => [name, LONG])],
    ['basic authentication', [['Authorization', 'Basic YWRtaW46YWRtaW4=']]],
    ['an unknown session', [['Cookie', `service.session=${LONG}`]]],
    ['an unknown session with a prefix', [['Cookie', `__Host-service.session=${LONG}`]]],
    ['an empty session', [['Cookie', 'service.session=']]],
    ['an unknown token and an unknown session', [[keyHeader, LONG], ['Cookie', `service.session=${LONG}`]]],
  ];
} // prettier-ignore

/** Query parameters in which some APIs accept a credential. */
const PARAMETERS: readonly string[] = ['access_token', 'token', 'key', 'api_key', 'apikey', 'auth'];

function inQuery(path: string): Alteration {
  const query = PARAMETERS.map((name) => `${name}=${LONG}`).join('&');
  const target = `${path}${path.includes('?') ? '&' : '?'}${query}`;
  return { label: `${path} with unknown tokens in the query`, probe: { target } };
}

/** Whether a credential that nobody was given is accepted. */
export const credentials: Check = {
  name: 'credentials',
  title: 'Unknown credentials',
  severity: 'serious',
  remedy: 'Verify credentials in Latchkey alone, and refuse when it refuses or cannot be reached: a proxy must not check for presence only, nor fail open.',
  async run(deployment) {
    const hits = await tryOnRefused(deployment, (subject) =>
      subject.view.fields.length > 0
        ? []
        : forged(deployment.options.keyHeader).map(([label, fields]): Alteration => ({
            label: `${subject.path} with ${label}`,
            probe: { target: subject.path, fields },
          })).concat(inQuery(subject.path)),
    );
    const findings = findingsOf(hits, 'A made-up credential');
    return { findings, seen: `${hits.tried} requests with unknown credentials are refused` };
  },
}; // prettier-ignore
