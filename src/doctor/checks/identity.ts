import { IDENTITY_PRESETS } from '../../config/schema/identity-presets.js';
import { counted } from '../../util/text.js';
import type { Check, Deployment, Finding, Subject } from '../check.js';
import { type Field, type Probe, isOfLatchkey, verdictOf } from '../client.js';
import {
  type Alteration,
  changesAnswer,
  echoedIn,
  findingOf,
  findingsOf,
  letIn,
  probeOf,
  tryOnRefused,
} from '../compare.js';

const { headers, reserved } = IDENTITY_PRESETS.latchkey;
export const IDENTITY_HEADERS: readonly string[] = [...Object.values(headers), ...reserved];

/** Headers that other proxies and frameworks accept as an identity. */
const OTHER_IDENTITIES: readonly string[] = [
  'X-Forwarded-User', 'X-Forwarded-Email', 'X-Forwarded-Groups', 'X-Auth-Request-User', 'X-Auth-Request-Email', 'Remote-User',
  'X-Remote-User', 'X-WEBAUTH-USER', 'X-User', 'X-User-Id', 'X-Authenticated-User', 'X-Client-Cert', 'X-Ssl-Client-Verify',
]; // prettier-ignore

type Spelling = readonly [label: string, probe: (forged: readonly Field[]) => Partial<Probe>];

function renamed(label: string, rename: (name: string) => string): Spelling {
  return [label, (forged) => ({ fields: forged.map(([name, value]) => [rename(name), value]) })];
}

function asLines(label: string, line: (name: string, value: string) => string): Spelling {
  return [label, (forged) => ({ lines: forged.map(([name, value]) => line(name, value)) })];
}

const underscored = ([name, value]: Field): Field => [name.replaceAll('-', '_'), value];

/** Ways in which a client can send a field so that some reader takes it for the intended one. */
const SPELLINGS: readonly Spelling[] = [
  renamed('unchanged', (name) => name),
  renamed('in lower case', (name) => name.toLowerCase()),
  renamed('in upper case', (name) => name.toUpperCase()),
  renamed('in mixed case', (name) => name.replaceAll(/../g, ([a = '', b = '']) => a.toLowerCase() + b.toUpperCase())),
  ...['_', '.', '~', '!'].map((by) => renamed(`with ${by} for -`, (name) => name.replaceAll('-', by))),
  renamed('with _ for the first - only', (name) => name.replace('-', '_')),
  renamed('with _ for the last - only', (name) => name.replace(/-(?=[^-]*$)/, '_')),
  renamed('with _ in upper case', (name) => name.replaceAll('-', '_').toUpperCase()),
  ['twice', (forged) => ({ fields: [...forged, ...forged] })],
  ['twice, empty first', (forged) => ({ fields: [...forged.map(([name]): Field => [name, '']), ...forged] })],
  ['with _ and with -', (forged) => ({ fields: [...forged.map(underscored), ...forged] })],
  ['with - and with _', (forged) => ({ fields: [...forged, ...forged.map(underscored)] })],
  ['named in Connection', (forged) => ({ fields: [['Connection', ['close', ...forged.map(([name]) => name)].join(', ')], ...forged] })],
  ['in trailers', (forged) => ({
    fields: [['Transfer-Encoding', 'chunked'], ['TE', 'trailers'], ['Trailer', forged.map(([name]) => name).join(', ')]],
    body: `0\r\n${forged.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
  })],
  asLines('with a space before the colon', (name, value) => `${name} : ${value}`),
  asLines('with a tab before the colon', (name, value) => `${name}\t: ${value}`),
  asLines('after a bare LF', (name, value) => `X-Latchkey-Doctor: 1\n${name}: ${value}`),
  asLines('after a bare CR', (name, value) => `X-Latchkey-Doctor: 1\r${name}: ${value}`),
  asLines('after a folded line', (name, value) => `X-Latchkey-Doctor: 1\r\n ${name}: ${value}`),
  asLines('with a folded value', (name, value) => `${name}:\r\n ${value}`),
  asLines('with a NUL in the name', (name, value) => `${name}\0: ${value}`),
]; // prettier-ignore

function meaningful(name: string): string {
  if (/role|groups/i.test(name)) return 'superuser';
  if (/scope/i.test(name)) return 'global';
  if (/credential/i.test(name)) return 'session';
  if (/verify/i.test(name)) return 'SUCCESS';
  return /login|email/i.test(name) ? 'superuser@example.com' : 'superuser';
}

export const identityHeaders: Check = {
  name: 'identity-headers',
  title: 'Forged identity headers',
  remedy:
    'Remove every client header that could be mistaken for an identity header, in every spelling, before setting those of Latchkey. Let clients reach the API only through Latchkey, or copy the proxy configuration of examples/ whole.',
  async run(deployment) {
    const own = [...IDENTITY_HEADERS, ...deployment.options.identityHeaders];
    const all = [...own, ...OTHER_IDENTITIES];
    const believed = all.map((name): Field => [name, meaningful(name)]);
    const refused = await tryOnRefused(deployment, ({ path }) => [
      ...SPELLINGS.map(([label, probe]) => ({ label: `${path} with forged identity headers ${label}`, probe: probe(believed) })),
      { label: `${path} with identity headers that say admin`, probe: { fields: all.map((name): Field => [name, 'admin']) } },
    ]);
    const allowed = letIn(deployment);
    const survivors = await Promise.all(allowed.map(async (subject) => survivorsOf(deployment, subject, own)));
    const findings = [...findingsOf(refused, 'A forged identity header'), ...survivors.flat()];
    const kept = `${refused.tried} refused requests stayed refused`;
    if (allowed.length > 0)
      return { findings, seen: `${kept}, and ${counted(allowed.length, 'allowed path')} showed no forged value` };
    const unknown = `${kept}, but no request was let in, so what the API receives is not known. Give a token and a path whose response depends on the identity`;
    return { findings, seen: '', unknown };
  },
}; // prettier-ignore

async function survivorsOf(deployment: Deployment, subject: Subject, names: readonly string[]): Promise<Finding[]> {
  const survives: string[] = [];
  await Promise.all(
    SPELLINGS.map(async (spelling) => {
      const what = `${subject.path} ${subject.view.name}, ${spelling[0]}`;
      const echo = await echoed(deployment, subject, names, spelling);
      if (echo.length > 0) survives.push(`${what}: the response shows the forged ${echo.join(', ')}`);
      else if (await believes(deployment, subject, names, spelling)) survives.push(`${what}: the response differs`);
    }),
  );
  const lost = (await losesIdentity(deployment, subject, names)) ? [`${subject.path} ${subject.view.name}: the response lacks the identity`] : [];
  return [
    ...findingOf('serious', 'Forged identity headers reach the API', survives),
    ...findingOf('serious', 'A client can remove the identity headers by naming them in Connection', lost),
  ];
} // prettier-ignore

async function echoed(deployment: Deployment, subject: Subject, names: readonly string[], [label, probe]: Spelling) {
  const forged = names.map((name, i): Field => [name, `${deployment.marker}i${i}i`]);
  const shown = async (some: readonly Field[]) => {
    const answer = await deployment.send(probeOf(subject, probe(some)));
    if (verdictOf(answer) === 'refused') return undefined;
    // A folded line is correctly read as the end of the preceding value (RFC 9112 5.2).
    const body = some.reduce((text, [name, value]) => text.replaceAll(new RegExp(`\\b1[ \\t]+${name}: ${value}`, 'g'), ''), answer.body);
    return echoedIn({ ...answer, body }, some);
  };
  const together = await shown(forged);
  if (together !== undefined) return together.map(([name]) => name);
  // A server that refuses one of them may let the others through.
  if (label !== 'unchanged' && label !== 'with _ for -') return [];
  const each = await Promise.all(forged.map(async (field) => shown([field])));
  return each.flatMap((one) => one ?? []).map(([name]) => name);
} // prettier-ignore

/** Whether the API responds differently to a forged superuser, but not to meaningless fields. */
async function believes(
  deployment: Deployment,
  subject: Subject,
  names: readonly string[],
  [, probe]: Spelling,
) {
  const forged = names.map((name): Field => [name, meaningful(name)]);
  const control = forged.map(([name, value]): Field => [name.replace(/^(?:X-Auth)?/i, 'X-Ldr0'), value]);
  return changesAnswer(deployment, subject, probe(forged), probe(control));
}

/** Whether the identity is missing when the client's `Connection` nominates its headers. */
async function losesIdentity(deployment: Deployment, subject: Subject, names: readonly string[]): Promise<boolean> {
  const shownIn = (body: string) => names.filter((name) => body.toLowerCase().includes(name.toLowerCase())).length;
  const nominating = async (some: readonly string[]) =>
    deployment.send(probeOf(subject, { fields: [['Connection', `close, ${some.join(', ')}`]] }));
  const answer = await nominating(names);
  if (verdictOf(answer) === 'passed' && shownIn(answer.body) < shownIn(subject.baseline.body)) return true;
  // An API that misses the identity refuses. A proxy that refuses such a `Connection` responds 400.
  const isRefused = answer.status >= 401 && !isOfLatchkey(answer);
  return subject.verdict === 'passed' && isRefused && verdictOf(await nominating(['X-Ldr-Unknown'])) === 'passed';
} // prettier-ignore

const METHODS: readonly string[] = [
  'X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override', 'X-Original-Method', 'X-Forwarded-Method', 'X-Envoy-Original-Method',
]; // prettier-ignore
const TARGETS: readonly string[] = [
  'X-Original-URL', 'X-Rewrite-URL', 'X-Override-URL', 'X-Original-URI', 'X-Rewrite-URI', 'X-Forwarded-Uri', 'X-Forwarded-Path',
  'X-Forwarded-Prefix', 'X-Request-URI', 'X-Original-Path', 'X-Rewrite-Path', 'X-Proxy-URL', 'X-Envoy-Original-Path', 'X-Replaced-Path',
  'X-Original-Prefix', 'X-Original-Request-URI', 'X-WAWS-Unencoded-URL', 'X-HTTP-Destinationurl', 'Proxy-URL', 'X-Script-Name',
  'Request-URI', 'Path-Info', 'Script-Name',
]; // prettier-ignore

const PARAMETERS: readonly string[] = ['_method', '_HttpMethod', 'X-HTTP-Method-Override', 'x-method', 'httpMethod']; // prettier-ignore

/** Both spellings are sent separately: a server may read only one of several fields. */
const spelled = (names: readonly string[]) => names.flatMap((name) => [name, name.replaceAll('-', '_')]);

export const overrides: Check = {
  name: 'overrides',
  title: 'Method and target overrides',
  remedy:
    'Drop every method and target override of clients, in every spelling, at the proxy and before it asks Latchkey; examples/nginx/dropped.conf has the list. Turn overrides off in the API.',
  async run(deployment) {
    const hits = await tryOnRefused(deployment, (subject) => overridesOf(deployment, subject));
    const allowed = letIn(deployment);
    const obeyed = await Promise.all(allowed.map(async (subject) => obeyedOn(deployment, subject)));
    return {
      findings: [...findingsOf(hits, 'An override'), ...obeyed.flat()],
      seen: `${hits.tried} refused requests stayed refused, and ${counted(allowed.length, 'allowed path')} showed no override`,
    };
  },
};

function overridesOf({ subjects }: Deployment, { path }: Subject): Alteration[] {
  const open = subjects.find(({ kind, verdict }) => kind === 'public' && verdict === 'passed')?.path ?? '/status';
  const claims: Field[][] = [
    ...['OPTIONS', 'HEAD'].flatMap((method) => spelled(METHODS).map((name): Field[] => [[name, method]])),
    ...spelled(TARGETS).map((name): Field[] => [[name, open]]),
    METHODS.map((name) => [name, 'GET']),
    TARGETS.map((name) => [name, '/']),
    ...['.', '~'].map((by) => METHODS.map((name): Field => [name.replaceAll('-', by), 'OPTIONS'])),
    ...['.', '~'].map((by) => TARGETS.map((name): Field => [name.replaceAll('-', by), open])),
    // The check reads these, if the proxy passes the client's fields on to it.
    ...['GET', 'OPTIONS'].map((method): Field[] => [['X-Original-Method', method], ['X-Original-URI', open]]),
    ...['GET', 'OPTIONS'].map((method): Field[] => [['X-Forwarded-Method', method], ['X-Forwarded-Uri', open]]),
  ];
  return [
    ...claims.map((fields) => ({
      label: `${path} with ${fields.slice(0, 2).map(([name, value]) => `${name}: ${value}`).join(', ')}${fields.length > 2 ? ' and others' : ''}`,
      probe: { fields },
    })),
    ...PARAMETERS.map((name) => ({ label: `${path}?${name}=OPTIONS`, probe: { target: withQuery(path, `${name}=OPTIONS`) } })),
  ];
} // prettier-ignore

function withQuery(path: string, query: string): string {
  return `${path}${path.includes('?') ? '&' : '?'}${query}`;
}

async function obeyedOn(deployment: Deployment, subject: Subject): Promise<Finding[]> {
  const { marker, subjects } = deployment;
  const { path, view } = subject;
  const refused = subjects.find(({ kind, verdict, path: other }) => kind === 'protected' && verdict === 'refused' && other !== path);
  // An API may obey only methods and paths that it knows.
  const methods = [marker.toUpperCase(), 'OPTIONS'];
  const targets = [`/${marker}o`, ...(refused === undefined || view.fields.length > 0 ? [] : [refused.path])];
  const changed: string[] = [];
  const shown: string[] = [];
  const tryField = async (field: Field) => {
    const line = `${path} ${view.name} with ${field.join(': ')}`;
    const control: Field = [field[0].replace(/^(X[-_])?/, (prefix) => `${prefix}Ldr-`), field[1]];
    if (await changesAnswer(deployment, subject, { fields: [field] }, { fields: [control] })) changed.push(line);
    else if (field[1].toLowerCase().includes(marker) && (await reaches(deployment, subject, field))) shown.push(line);
  };
  const tryParameter = async (name: string, method: string) => {
    const probe = (parameter: string) => ({ target: withQuery(path, `${parameter}=${method}`) });
    if (await changesAnswer(deployment, subject, probe(name), probe(`ldr${name}`))) changed.push(`${path}?${name}=${method} ${view.name}`);
  };
  await Promise.all([
    ...spelled(METHODS).flatMap((name) => methods.map(async (method) => tryField([name, method]))),
    ...spelled(TARGETS).flatMap((name) => targets.map(async (target) => tryField([name, target]))),
    ...PARAMETERS.flatMap((name) => methods.map(async (method) => tryParameter(name, method))),
  ]);
  return [
    ...findingOf('serious', 'An override sent by a client takes effect', changed),
    ...findingOf('serious', 'An override sent by a client reaches the API', shown),
  ];
} // prettier-ignore

async function reaches(deployment: Deployment, subject: Subject, field: Field): Promise<boolean> {
  const answer = await deployment.send(probeOf(subject, { fields: [field] }));
  return verdictOf(answer) !== 'refused' && echoedIn(answer, [field]).length > 0;
}
