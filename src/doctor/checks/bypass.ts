import { counted } from '../../util/text.js';
import type { Check, Deployment, Finding, Outcome, Subject } from '../check.js';
import { destinationOf, type Field, type ProbeResponse, isOfLatchkey, verdictOf } from '../client.js';
import { describeAnswer, findingOf, findingsOf, onLoopback, tryOnRefused } from '../compare.js';
import { IDENTITY_HEADERS } from './identity.js';

/** Whether paths need a credential at all, without which the other checks have nothing to compare. */
export const authentication: Check = {
  name: 'authentication',
  title: 'Requests without a credential',
  remedy:
    'Send every path through Latchkey, and name only public paths with auth: none. If a path is meant to be public, give it to doctor as --public instead of --path.',
  async run({ subjects }) {
    const anonymous = subjects.filter(({ view }) => view.fields.length === 0);
    const named = anonymous.filter(({ kind }) => kind === 'protected');
    const rest = anonymous.filter(({ kind }) => kind === 'unknown');
    // Unless the operator named a path, the unknown one stands for all.
    const findings = [
      ...named.flatMap((subject) => openFinding(subject, 'serious')),
      ...rest.flatMap((subject) => openFinding(subject, named.length > 0 ? 'warning' : 'serious')),
    ];
    return { findings, seen: `${counted(named.length + rest.length, 'path')} refused` };
  },
};

function openFinding({ path, kind, verdict, baseline }: Subject, severity: Finding['severity']): Finding[] {
  if (verdict === 'refused') return [];
  const evidence = [`GET ${path}: ${describeAnswer(baseline)}`];
  const what = kind === 'unknown' ? 'A path that was not named' : path;
  if (verdict === 'passed') return findingOf(severity, `${what} is let in without a credential`, evidence);
  const summary = `${what} is not refused for a missing credential, and no request was clearly let in`;
  return findingOf('warning', summary, evidence);
}

export const upstream: Check = {
  name: 'upstream',
  title: 'Direct access to the API',
  remedy:
    'Let the API listen on loopback or a private network that only Latchkey reaches, restrict it by a firewall or a NetworkPolicy, and verify the signed assertion in the API (identity.assertion).',
  async run(deployment) {
    const { upstream: url } = deployment.options;
    if (url !== undefined) return examine(deployment, url);
    const unknown = 'name the API with --upstream to see whether it can be reached directly';
    return { findings: [], seen: '', unknown };
  },
};

async function examine(deployment: Deployment, url: URL): Promise<Outcome> {
  const prefix = url.pathname.replace(/\/$/, '');
  const targets = [...deployment.options.paths, deployment.unknownPath].map((path) => `${prefix}${path}`);
  const ask = async (fields: readonly Field[]) =>
    Promise.all(targets.map(async (target) => deployment.send({ target, fields }, destinationOf(url))));
  const answers = await ask([]);
  if (answers.every(({ status }) => status === 0))
    return { findings: [], seen: `${url.host} responds with ${answers.map(describeAnswer)[0]}` };
  if (answers.every(isGuarded)) return { findings: [], seen: `${url.host} is behind Latchkey` };
  const forged = await ask(
    IDENTITY_HEADERS.map((name) => [name, /Scope/.test(name) ? 'global' : 'superuser']),
  );
  const believed = forged.flatMap((answer, i) => {
    const before = answers[i];
    if (before === undefined || verdictOf(before) !== 'refused' || verdictOf(answer) !== 'passed') return [];
    return [`GET ${url.origin}${targets[i]} with forged identity headers: ${describeAnswer(answer)} instead of ${describeAnswer(before)}`];
  }); // prettier-ignore
  const lines = answers.map((answer, i) => `GET ${url.origin}${targets[i]}: ${describeAnswer(answer)}`);
  const isRefusing = answers.every((answer) => ['refused', 'none'].includes(verdictOf(answer)));
  return {
    findings: [
      ...(isRefusing
        ? findingOf('warning', `${url.origin} responds directly, but refuses these requests`, lines)
        : findingOf('serious', `${url.origin} serves requests that bypass Latchkey${onLoopback(answers)}`, lines)),
      ...findingOf('serious', `${url.origin} trusts forged identity headers`, believed),
    ],
    seen: '',
  }; // prettier-ignore
}

function isGuarded(answer: ProbeResponse): boolean {
  return answer.status === 0 || (isOfLatchkey(answer) && verdictOf(answer) === 'refused');
}

export const options: Check = {
  name: 'options',
  title: 'OPTIONS without a credential',
  remedy:
    'Let Latchkey check OPTIONS like any other method, and configure cors in Latchkey instead of exempting OPTIONS in the proxy.',
  async run(deployment) {
    const { hits, tried } = await tryOnRefused(deployment, ({ path }) => [
      { label: `OPTIONS ${path}`, probe: { method: 'OPTIONS' } },
    ]);
    // A proxy that answers OPTIONS itself sends no content of the API.
    const judged = hits.map((hit) => ({
      ...hit,
      isClear: hit.isClear && hit.answer.body !== '' && !isOfLatchkey(hit.answer),
    }));
    const seen = `${counted(tried, 'request')} with OPTIONS refused`;
    return { findings: findingsOf({ hits: judged, tried }, 'OPTIONS'), seen };
  },
};
