import {
  changesAnswer,
  echoedIn,
  findingsOf,
  joinResults,
  probeOf,
  shorten,
  tryOnRefused,
} from '../alter.js';
import { counted } from '../../domain/counted.js';
import type { Check, Deployment, Finding, Outcome, Subject } from '../check.js';
import { type ProbeResponse, type Field, textOf, valuesOf } from '../message.js';
import { IDENTITY_HEADERS, OTHER_IDENTITIES, type Spelling, SPELLINGS } from '../spellings.js';
import { isOfLatchkey, verdictOf } from '../verdict.js';

const REMEDY =
  'Remove every client header that could be mistaken for an identity header, in every spelling, before setting those of Latchkey. Let clients reach the API only through Latchkey, or copy the proxy configuration of examples/ whole.';

/** Returns a value that a careless API would trust. */
function meaningful(name: string): string {
  if (/role|groups/i.test(name)) return 'superuser';
  if (/scope/i.test(name)) return 'global';
  if (/credential/i.test(name)) return 'session';
  if (/verify/i.test(name)) return 'SUCCESS';
  return /login|email/i.test(name) ? 'superuser@example.com' : 'superuser';
}

/** Whether identity headers of a client reach the API, in any spelling. */
export const identityHeaders: Check = {
  name: 'identity-headers',
  title: 'Forged identity headers',
  severity: 'serious',
  remedy: REMEDY,
  async run(deployment) {
    const own = [...IDENTITY_HEADERS, ...deployment.options.identityHeaders];
    const believed = [...own, ...OTHER_IDENTITIES].map((name) => [name, meaningful(name)] as const);
    const admin = [...own, ...OTHER_IDENTITIES].map((name): Field => [name, 'admin']);
    const hits = await tryOnRefused(deployment, ({ path }) => [
      ...SPELLINGS.map(({ label, probe }) => ({
        label: `${path} with forged identity headers ${label}`,
        probe: { target: path, ...probe(believed) },
      })),
      { label: `${path} with identity headers that say admin`, probe: { target: path, fields: admin } },
    ]);
    const allowed = deployment.subjects.filter(({ verdict }) => verdict === 'passed' || verdict === 'unclear');
    const echoes = await Promise.all(allowed.map(async (subject) => echoesOf(deployment, subject, own)));
    const findings = [...findingsOf(joinResults([hits]), 'A forged identity header'), ...echoes.flat(), ...leaks(deployment, own)];
    return outcomeOf(findings, hits.tried, allowed);
  },
}; // prettier-ignore

function outcomeOf(findings: Finding[], tried: number, allowed: readonly Subject[]): Outcome {
  const seen = `${tried} refused requests stayed refused, and ${counted(allowed.length, 'allowed path')} showed no forged value`;
  if (findings.length > 0 || allowed.length > 0) return { findings, seen };
  return {
    findings,
    seen: `${tried} refused requests stayed refused`,
    unknown: `${tried} refused requests stayed refused, but no request was let in, so what the API receives is not known. Give a token and a path whose response depends on the identity`,
  };
}

/** Reports a token that reaches the API, and identity headers that reach clients. */
function leaks({ answers, options, subjects }: Deployment, names: readonly string[]): Finding[] {
  const findings: Finding[] = [];
  const shows = subjects.filter(({ baseline }) => options.key !== undefined && textOf(baseline).includes(options.key));
  if (shows.length > 0)
    findings.push({
      severity: 'warning',
      summary: 'The token reaches the API',
      evidence: shows.map(({ path }) => `the response of ${path} shows it`),
      remedy: 'Remove the credential from requests to the API (nginx: proxy_set_header Service-Key \'\'; and the Cookie and Authorization of the response to the check).',
    });
  const given = new Set(answers.flatMap((answer) => names.filter((name) => valuesOf(answer, name.toLowerCase()).length > 0)));
  if (given.size > 0)
    findings.push({
      severity: given.has('X-Auth-Assertion') ? 'serious' : 'warning',
      summary: 'Clients receive identity headers in responses',
      evidence: [...given],
      remedy: 'Send identity headers to the API only: forward no response of the decision port, and set none with add_header (nginx) or header_down (Caddy).',
    });
  return findings;
} // prettier-ignore

/**
 * Reports the effects of forged fields on an allowed request: echoed values, a different response,
 * or a missing identity.
 */
async function echoesOf(deployment: Deployment, subject: Subject, names: readonly string[]): Promise<Finding[]> {
  const lines = await Promise.all(
    SPELLINGS.map(async (spelling) => {
      const what = `${subject.path} ${subject.view.name}, ${spelling.label}`;
      const echo = await echoed(deployment, subject, names, spelling);
      if (echo.length > 0) return { survives: `${what}: the response shows the forged ${echo.join(', ')}` };
      if (await believes(deployment, subject, names, spelling)) return { survives: `${what}: the response differs` };
      if (await losesIdentity(deployment, subject, names, spelling)) return { lost: `${what}: the response lacks the identity` };
      return {};
    }),
  );
  const survives = lines.flatMap(({ survives: line }) => line ?? []);
  const lost = lines.flatMap(({ lost: line }) => line ?? []);
  const findings: Finding[] = [];
  if (survives.length > 0)
    findings.push({ severity: 'serious', summary: 'Forged identity headers reach the API', evidence: shorten(survives) });
  if (lost.length > 0)
    findings.push({ severity: 'serious', summary: 'A client can remove the identity headers by naming them in Connection', evidence: shorten(lost) });
  return findings;
} // prettier-ignore

/** Returns the names of forged fields whose values are echoed. */
async function echoed(deployment: Deployment, subject: Subject, names: readonly string[], spelling: Spelling) {
  const forged = names.map((name, i): Field => [name, `${deployment.marker}i${i}i`]);
  const shown = await shownOf(deployment, subject, forged, spelling);
  if (shown !== undefined) return shown;
  // A server that refuses one of them may let the others through.
  if (!ALONE.has(spelling.label)) return [];
  const each = await Promise.all(forged.map(async (field) => shownOf(deployment, subject, [field], spelling)));
  return each.flatMap((one) => one ?? []);
} // prettier-ignore

const ALONE: ReadonlySet<string> = new Set(['unchanged', 'with _ for -']);

/**
 * Removes folded lines, which are correctly read as the end of the preceding value (RFC 9112 5.2),
 * and not as a field.
 */
function withoutFolded(answer: ProbeResponse, forged: readonly Field[]): ProbeResponse {
  const folded = forged.map(([name, value]) => `${name}: ${value}`);
  const body = folded.reduce((text, line) => text.replaceAll(new RegExp(`\\b1[ \\t]+${line}`, 'g'), ''), answer.body);
  return { ...answer, body };
} // prettier-ignore

/** Returns the names of echoed fields; undefined when the request is refused. */
async function shownOf(deployment: Deployment, subject: Subject, forged: readonly Field[], spelling: Spelling) {
  const answer = await deployment.send(probeOf(subject, { probe: spelling.probe(forged) }));
  if (verdictOf(answer) === 'refused') return undefined;
  const markers = echoedIn(withoutFolded(answer, forged), forged.map(([, value]) => value));
  return forged.filter(([, value]) => markers.includes(value)).map(([name]) => name);
} // prettier-ignore

/** Whether the API responds differently to a forged superuser, but not to meaningless fields. */
async function believes(deployment: Deployment, subject: Subject, names: readonly string[], spelling: Spelling) {
  const forged = names.map((name): Field => [name, meaningful(name)]);
  const control = forged.map(([name, value]): Field => [name.replace(/^X-Auth/i, 'X-Ldr0').replace(/^(?!X-Ldr0)/, 'Ldr-'), value]);
  return changesAnswer(deployment, subject, spelling.probe(forged), spelling.probe(control));
} // prettier-ignore

/** Whether identity headers that the API shows are missing when `Connection` nominates them. */
async function losesIdentity(
  deployment: Deployment,
  subject: Subject,
  names: readonly string[],
  { label }: Spelling,
): Promise<boolean> {
  if (label !== 'named in Connection') return false;
  const shown = shownIn(subject.baseline.body, names);
  const nominating = (names: readonly string[]) =>
    deployment.send(probeOf(subject, { probe: { fields: [['Connection', `close, ${names.join(', ')}`]] } }));
  const answer = await nominating(names);
  if (verdictOf(answer) === 'passed' && shownIn(answer.body, shown).length < shown.length) return true;
  // An API that misses the identity refuses. A proxy that refuses such a `Connection` responds 400.
  const isRefused = answer.status >= 401 && !isOfLatchkey(answer);
  return subject.verdict === 'passed' && isRefused && verdictOf(await nominating(['X-Ldr-Unknown'])) === 'passed';
} // prettier-ignore

function shownIn(body: string, names: readonly string[]): string[] {
  const text = body.toLowerCase();
  return names.filter((name) => text.includes(name.toLowerCase()));
}
