import {
  type Alteration,
  changesAnswer,
  echoedIn,
  findingsOf,
  probeOf,
  shorten,
  tryOnRefused,
} from '../alter.js';
import { counted } from '../../domain/counted.js';
import type { Check, Deployment, Finding, Subject } from '../check.js';
import type { Field } from '../message.js';
import { METHODS, TARGETS } from '../override-names.js';
import { shapeOf, verdictOf } from '../verdict.js';

/** Query parameters that frameworks read the method from. */
const PARAMETERS: readonly string[] = [
  '_method',
  '_HttpMethod',
  'X-HTTP-Method-Override',
  'x-method',
  'httpMethod',
];

/** Fields that a check reads, if the proxy passes the client's fields on to it. */
const CHECKS: readonly (readonly [method: string, target: string])[] = [
  ['X-Original-Method', 'X-Original-URI'],
  ['X-Forwarded-Method', 'X-Forwarded-Uri'],
]; // prettier-ignore

/** A method that does not exist. */
const NO_METHOD = 'LATCHKEYDOCTOR';

/** Returns both spellings, to be sent separately: a server may read only one of several fields. */
const spelled = (name: string): readonly string[] => [name, name.replaceAll('-', '_')];

type What = 'method' | 'target';

const GROUPS: readonly { readonly what: What; readonly names: readonly string[] }[] = [
  { what: 'method', names: METHODS },
  { what: 'target', names: TARGETS },
];

/** Whether header fields of a client can override the method or the target. */
export const overrides: Check = {
  name: 'overrides',
  title: 'Method and target overrides',
  severity: 'serious',
  remedy: 'Drop every method and target override of clients, in every spelling, at the proxy and before it asks Latchkey; examples/nginx/dropped.conf has the list. Turn overrides off in the API.',
  async run(deployment) {
    const hits = await tryOnRefused(deployment, (subject) => alterationsOf(deployment, subject));
    const allowed = deployment.subjects.filter(({ verdict }) => verdict === 'passed' || verdict === 'unclear');
    const survived = await Promise.all(allowed.map(async (subject) => survivorsOf(deployment, subject)));
    return {
      findings: [...findingsOf(hits, 'An override'), ...survived.flat()],
      seen: `${hits.tried} refused requests stayed refused, and ${counted(allowed.length, 'allowed path')} showed no override`,
    };
  },
}; // prettier-ignore

/** Returns requests for a refused path that claim another method or an allowed target. */
function alterationsOf({ subjects }: Deployment, { path }: Subject): Alteration[] {
  const open = subjects.find(({ kind, verdict }) => kind === 'public' && verdict === 'passed')?.path ?? '/status';
  return [
    ...['OPTIONS', 'HEAD'].flatMap((method) => METHODS.flatMap(spelled).flatMap((name) => one(path, name, method))),
    ...TARGETS.flatMap(spelled).flatMap((name) => one(path, name, open)),
    together(path, '-', METHODS, 'GET'),
    together(path, '-', TARGETS, '/'),
    ...['.', '~'].flatMap((character) => [
      together(path, character, METHODS, 'OPTIONS'),
      together(path, character, TARGETS, open),
    ]),
    ...PARAMETERS.map((name) => ({
      label: `${path}?${name}=OPTIONS`,
      probe: { target: withQuery(path, `${name}=OPTIONS`) },
    })),
    ...CHECKS.flatMap(([method, target]) =>
      ['GET', 'OPTIONS'].map((value) => ({
        label: `${path} with ${method}: ${value} and ${target}: ${open}`,
        probe: { target: path, fields: [[method, value], [target, open]] as const },
      })),
    ),
  ];
} // prettier-ignore

/** Returns one alteration with all names, in a spelling that few servers accept. */
function together(path: string, character: string, names: readonly string[], value: string): Alteration {
  const fields = names.map((name): Field => [name.replaceAll('-', character), value]);
  return {
    label: `${path} with overrides with ${character} for -: ${value}`,
    probe: { target: path, fields },
  };
}

function withQuery(path: string, query: string): string {
  return `${path}${path.includes('?') ? '&' : '?'}${query}`;
}

function one(path: string, name: string, value: string): Alteration[] {
  return [{ label: `${path} with ${name}: ${value}`, probe: { target: path, fields: [[name, value]] } }];
}

/**
 * Reports the effects of overrides on an allowed request: a different response, or an echoed value.
 */
async function survivorsOf(deployment: Deployment, subject: Subject): Promise<Finding[]> {
  const changed: string[] = [];
  const echoed: string[] = [];
  const tries = GROUPS.flatMap(({ what, names }) => names.flatMap(spelled).map((name) => ({ what, name })));
  await Promise.all(
    tries.map(async ({ what, name }, i) => {
      const value = what === 'method' ? NO_METHOD : `/${deployment.marker}o${i}o`;
      const fields: readonly Field[] = [[name, value]];
      const line = `${subject.path} ${subject.view.name} with ${name}: ${value}`;
      const answer = await deployment.send(probeOf(subject, { probe: { fields } }));
      if (verdictOf(answer) === 'refused') return;
      const isOther = shapeOf(answer) !== shapeOf(subject.baseline);
      if (isOther && (await isHonoured(deployment, subject, name, value))) changed.push(line);
      else if (what === 'target' && echoedIn(answer, [value]).length > 0) echoed.push(line);
      else if (showsField(answer.body, name) && !showsField(subject.baseline.body, name)) echoed.push(line);
    }),
  );
  // An API may obey only methods and paths that it knows.
  const known = knownValues(deployment, subject);
  await Promise.all(
    tries.flatMap(({ what, name }) =>
      known[what].map(async (value) => {
        if (await isHonoured(deployment, subject, name, value)) changed.push(`${subject.path} ${subject.view.name} with ${name}: ${value}`);
      }),
    ),
  );
  for (const name of PARAMETERS)
    for (const method of [NO_METHOD, 'OPTIONS'])
      if (await obeysParameter(deployment, subject, name, method)) changed.push(`${subject.path}?${name}=${method} ${subject.view.name}`); // oxlint-disable-line no-await-in-loop -- few
  const findings: Finding[] = [];
  if (changed.length > 0)
    findings.push({ severity: 'serious', summary: 'An override sent by a client takes effect', evidence: shorten(changed) });
  if (echoed.length > 0)
    findings.push({ severity: 'serious', summary: 'An override sent by a client reaches the API', evidence: shorten(echoed) });
  return findings;
} // prettier-ignore

/** Returns a method without side effects, and a path that is refused to the same anonymous view. */
function knownValues({ subjects }: Deployment, { path, view }: Subject): Record<What, readonly string[]> {
  const refused = subjects.find((one) => one.verdict === 'refused' && one.kind === 'protected' && one.path !== path);
  const anonymous = view.fields.length === 0 && refused !== undefined ? [refused.path] : [];
  return { method: ['OPTIONS'], target: anonymous };
} // prettier-ignore

async function obeysParameter(
  deployment: Deployment,
  { path, ...subject }: Subject,
  name: string,
  method: string,
) {
  const target = (name: string) => ({ target: withQuery(path, `${name}=${method}`) });
  return changesAnswer(deployment, { path, ...subject }, target(name), target(`ldr${name}`));
}

async function isHonoured(deployment: Deployment, subject: Subject, name: string, value: string) {
  const control = name.replace(/^(X[-_])?/, (prefix) => `${prefix}Ldr-`);
  return changesAnswer(deployment, subject, { target: subject.path, fields: [[name, value]] }, { target: subject.path, fields: [[control, value]] });
} // prettier-ignore

/** Whether an API that echoes its header fields shows one of this name. */
function showsField(body: string, name: string): boolean {
  const folded = body.toLowerCase().replaceAll(/[^a-z0-9]/g, '-');
  return folded.includes(`-${name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-')}-`);
}
