import { shorten } from '../alter.js';
import { counted } from '../../domain/counted.js';
import { type Check, type Deployment, type Finding, type Outcome, type Subject, unknown } from '../check.js';
import { type ProbeResponse, type Field, valuesOf } from '../message.js';
import { describeAnswer, isOfLatchkey, verdictOf } from '../verdict.js';

/** Whether the response to one client, or the decision about it, is served to another. */
export const caches: Check = {
  name: 'caches',
  title: 'Caches',
  severity: 'serious',
  remedy: 'Put no cache between clients and Latchkey, or let it store only what "Cache-Control: public" allows. Give a cache of decisions a key with every credential and the whole target (nginx: proxy_cache_key with Service-Key, Cookie, Authorization, $request_method and $request_uri), or none.',
  async run(deployment) {
    const own = ownFindings(deployment.answers);
    const keyed = deployment.subjects.filter(({ view, verdict }) => view.fields.length > 0 && verdict === 'passed');
    if (keyed.length === 0)
      return { ...unknown('give a token and a path that it may use, to see whether its responses are served to others'), findings: own };
    return examine(deployment, keyed, own);
  },
}; // prettier-ignore

async function examine(
  deployment: Deployment,
  keyed: readonly Subject[],
  own: readonly Finding[],
): Promise<Outcome> {
  const all = await Promise.all(keyed.map(async (subject) => given(deployment, subject)));
  const evidence = all.flat();
  const findings: Finding[] = [...own];
  if (evidence.length > 0)
    findings.push({
      severity: 'serious',
      summary: 'Responses to the token are served to others',
      evidence: shorten(evidence),
    });
  const shared = keyed.filter(({ baseline }) => isShared(baseline));
  if (shared.length > 0)
    findings.push({
      severity: 'warning',
      summary: 'Shared caches may store responses to a token',
      evidence: shared.map(
        ({ path, baseline }) =>
          `${path} with the token: Cache-Control: ${valuesOf(baseline, 'cache-control').join(', ')}`,
      ),
      remedy: 'Send "Cache-Control: private" or "no-store" with every response that needs a credential.',
    });
  return {
    findings,
    seen: `responses to ${counted(keyed.length, 'path')} with the token are served to nobody else`,
  };
}

/**
 * Requests as others what the token has just opened, and returns the requests that were let in.
 * Others who were let in before prove no cache.
 *
 * Every target except the path itself is new, so that nobody gets a cached response later.
 */
async function given(deployment: Deployment, { path, view }: Subject): Promise<string[]> {
  const { marker, options } = deployment;
  const query = path.includes('?') ? '&' : '?';
  const targets = [path, `${path}${query}${marker}c`, `${path}/${marker}.css`, `${path};${marker}.js`, `${path}.css${query}${marker}`];
  const unknownKey: readonly Field[] = [[options.keyHeader, 'a'.repeat(40)]];
  const everybody = [['without a credential', []], ['with an unknown token', unknownKey]] as const;
  const lines = await Promise.all(
    targets.map(async (target) => {
      const unopened = `${target}${target.includes('?') ? '&' : '?'}${marker}b`;
      const before = await Promise.all(everybody.map(async ([, fields]) => deployment.send({ target: unopened, fields })));
      const others = everybody.filter((_, i) => verdictOf(before[i] as ProbeResponse) === 'refused');
      if (others.length === 0) return [];
      const opened = await deployment.send({ target, fields: view.fields });
      if (verdictOf(opened) !== 'passed') return [];
      const found: string[] = [];
      for (const [who, fields] of others) {
        const answer = await deployment.send({ target, fields }); // oxlint-disable-line no-await-in-loop -- after the token's
        if (verdictOf(answer) === 'passed') found.push(`${target} ${who}, after the token opened it: ${describeAnswer(answer)}`);
      }
      return found;
    }),
  );
  return lines.flat();
} // prettier-ignore

function isShared(answer: ProbeResponse): boolean {
  return valuesOf(answer, 'cache-control').some((value) => /\bpublic\b|\bs-maxage=[1-9]/i.test(value));
}

/**
 * Reports refusals that can be stored. Latchkey forbids storing its responses; a cache that does so
 * serves one client's refusal to others.
 */
function ownFindings(answers: readonly ProbeResponse[]): Finding[] {
  const own = answers.filter((answer) => answer.status === 401 && isOfLatchkey(answer));
  const evidence: readonly [about: string, count: number][] = [
    ['without Cache-Control: no-store', own.filter((answer) => !valuesOf(answer, 'cache-control').some((value) => /no-store/i.test(value))).length],
    ['with an Age of two seconds or more', own.filter((answer) => valuesOf(answer, 'age').some((age) => Number(age) >= CACHED_AGE)).length],
  ];
  const found = evidence.filter(([, count]) => count > 0);
  if (found.length === 0) return [];
  const summary = "Latchkey's responses lose Cache-Control: no-store, or come from a cache";
  return [{ severity: 'warning', summary, evidence: found.map(([about, count]) => `${count} of ${own.length} refusals ${about}`) }];
} // prettier-ignore

/** Apache Traffic Server adds `Age: 1` to a fresh response if a second ended meanwhile. */
const CACHED_AGE = 2;
