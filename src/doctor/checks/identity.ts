import { changesAnswer, echoedIn, findingsOf, joinHits, probeOf, shorten, tryOnRefused } from '../alter.js';
import type { Check, Deployment, Finding, Outcome, Subject } from '../check.js';
import type { Field } from '../message.js';
import { IDENTITY_HEADERS, OTHER_IDENTITIES, type Spelling, SPELLINGS } from '../spellings.js';
import { verdictOf } from '../verdict.js';

const REMEDY =
  'Remove every header of the client that a reader could take for an identity header, in every spelling, before setting those of Latchkey. Let clients reach the API only through Latchkey, or copy the proxy configuration of examples/ whole.';

/** Values that a careless API believes. */
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
    const hits = await tryOnRefused(deployment, ({ path }) =>
      SPELLINGS.map(({ label, probe }) => ({
        label: `${path} with forged identity headers ${label}`,
        probe: { target: path, ...probe(believed) },
      })),
    );
    const allowed = deployment.subjects.filter(({ verdict }) => verdict === 'passed' || verdict === 'unclear');
    const echoes = await Promise.all(allowed.map(async (subject) => echoesOf(deployment, subject, own)));
    const findings = [...findingsOf(joinHits([hits]), 'A forged identity header'), ...echoes.flat()];
    return outcomeOf(findings, hits.tried, allowed);
  },
}; // prettier-ignore

function outcomeOf(findings: Finding[], tried: number, allowed: readonly Subject[]): Outcome {
  const seen = `${tried} refused requests stayed refused, and ${allowed.length} allowed paths showed no forged value`;
  if (findings.length > 0 || allowed.length > 0) return { findings, seen };
  return {
    findings,
    seen: `${tried} refused requests stayed refused`,
    unknown: `${tried} refused requests stayed refused, but no request was let in, so what the API receives is not known. Give a token, and a path whose answer depends on the identity`,
  };
}

/** What an allowed request shows of forged fields: their values, another answer, or that the true ones are gone. */
async function echoesOf(deployment: Deployment, subject: Subject, names: readonly string[]): Promise<Finding[]> {
  const lines = await Promise.all(
    SPELLINGS.map(async (spelling) => {
      const what = `${subject.path} ${subject.view.name}, ${spelling.label}`;
      const echo = await echoed(deployment, subject, names, spelling);
      if (echo.length > 0) return { survives: `${what}: the answer shows the forged ${echo.join(', ')}` };
      if (await believes(deployment, subject, names, spelling)) return { survives: `${what}: the answer is another one` };
      if (await losesIdentity(deployment, subject, names, spelling)) return { lost: `${what}: the answer lacks the identity` };
      return {};
    }),
  );
  const survives = lines.flatMap(({ survives: line }) => line ?? []);
  const lost = lines.flatMap(({ lost: line }) => line ?? []);
  const findings: Finding[] = [];
  if (survives.length > 0)
    findings.push({ severity: 'serious', summary: 'Forged identity headers reach the API', evidence: shorten(survives) });
  if (lost.length > 0)
    findings.push({ severity: 'serious', summary: 'A client can take the identity away by naming it in Connection', evidence: shorten(lost) });
  return findings;
} // prettier-ignore

/** Names of forged fields whose values come back. */
async function echoed(deployment: Deployment, subject: Subject, names: readonly string[], spelling: Spelling) {
  const forged = names.map((name, i): Field => [name, `${deployment.marker}i${i}i`]);
  const answer = await deployment.send(probeOf(subject, { probe: spelling.probe(forged) }));
  if (verdictOf(answer) === 'refused') return [];
  const markers = echoedIn(answer, forged.map(([, value]) => value));
  return forged.filter(([, value]) => markers.includes(value)).map(([name]) => name);
} // prettier-ignore

/** Whether an API answers otherwise to a forged superuser, which fields without a meaning don't cause. */
async function believes(deployment: Deployment, subject: Subject, names: readonly string[], spelling: Spelling) {
  const forged = names.map((name): Field => [name, meaningful(name)]);
  const control = forged.map(([name, value]): Field => [name.replace(/^X-Auth/i, 'X-Ldr0').replace(/^(?!X-Ldr0)/, 'Ldr-'), value]);
  return changesAnswer(deployment, subject, spelling.probe(forged), spelling.probe(control));
} // prettier-ignore

/** Whether names of identity headers, which the API shows, are missing when `Connection` nominates them. */
async function losesIdentity(
  deployment: Deployment,
  subject: Subject,
  names: readonly string[],
  { label }: Spelling,
): Promise<boolean> {
  if (label !== 'nominated by Connection') return false;
  const shown = shownIn(subject.baseline.body, names);
  if (shown.length === 0) return false;
  const answer = await deployment.send(
    probeOf(subject, { probe: { fields: [['Connection', `close, ${names.join(', ')}`]] } }),
  );
  return verdictOf(answer) === 'passed' && shownIn(answer.body, shown).length < shown.length;
}

function shownIn(body: string, names: readonly string[]): string[] {
  const text = body.toLowerCase();
  return names.filter((name) => text.includes(name.toLowerCase()));
}
