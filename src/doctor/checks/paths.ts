import { type Alteration, findingsOf, tryOnRefused } from '../alter.js';
import { type Check, type Deployment, fine, type Outcome } from '../check.js';
import type { ProbeResponse } from '../message.js';
import {
  OPEN_PATHS,
  PREFIXES,
  type Reading,
  readingsBack,
  readingsBelow,
  readingsOf,
  readingsThrough,
  readingsThroughUsual,
} from '../readings.js';
import { shapeOf, verdictOf } from '../verdict.js';

/** Whether a refused path is refused in every spelling. */
export const pathReadings: Check = {
  name: 'paths',
  title: 'Alternative readings of a path',
  severity: 'serious',
  remedy:
    'Authorize the path that the API will see: forward the target unchanged after the decision (nginx: $request_uri in X-Original-URI, no path in proxy_pass), refuse dot segments, encoded slashes, backslashes and ";" (Latchkey does), and let no location, prefix or suffix rule of the proxy skip the check.',
  run: examine,
};

async function examine(deployment: Deployment): Promise<Outcome> {
  const { subjects, options } = deployment;
  const isOpen = subjects.some(({ kind, verdict }) => kind === 'unknown' && verdict !== 'refused');
  const open = options.publicPaths.filter((path) => path !== '/');
  const publicShapes = new Set(subjects.filter(({ kind }) => kind === 'public').map(({ baseline }) => shapeOf(baseline)));
  const below = await shapesBelow(deployment, [...open, ...OPEN_PATHS, ...PREFIXES]);
  // A response that any path below an open one gets comes from a separate site, unless it looks
  // like the API.
  const isSite = (answer: ProbeResponse, target: string) =>
    below.has(echoShapeOf(answer, target)) && (deployment.isOfApi(answer) !== true || shows(answer, target));
  // A target that is normalized before the decision may be the public path itself.
  const isPublic = (answer: ProbeResponse) => publicShapes.has(shapeOf(answer));
  const hits = await tryOnRefused(deployment, ({ path }) => [
    // Where unnamed paths are let in anyway, another resource is no bypass.
    ...readingsOf(path, options.url.origin).filter(({ isSame }) => isSame || !isOpen).map((reading) => alteration(reading)),
    ...open.flatMap((one) => readingsThrough(one, path)).filter(({ isSame }) => isSame || !isOpen).map((reading) => alteration(reading, isSite)),
    ...[...readingsThroughUsual(path), ...readingsBelow(path)].map((reading) => alteration(reading, isSite)),
    ...open.flatMap((one) => readingsBack(path, one)).map((reading) => alteration(reading, isPublic)),
  ]);
  const findings = findingsOf(hits, 'An alternative reading of a path');
  return findings.length > 0 ? { findings, seen: '' } : fine(`${hits.tried} alternative readings of refused paths are refused`);
} // prettier-ignore

function alteration(
  { label, target }: Reading,
  isElsewhere: (answer: ProbeResponse, target: string) => boolean = () => false,
): Alteration {
  const probe = { target };
  return { label: `${target} (${label})`, probe, isElsewhere: (answer) => isElsewhere(answer, target) };
}

/** Syntax that some servers resolve to another path. */
const RESOLVED = /\/\.\.?(?:\/|;|$)|%2e|%2f|%5c|\\|;|\/\/|#/i;

/**
 * Whether an API that echoes its target shows this one as sent, and no server resolves it to
 * another path.
 */
function shows({ body }: ProbeResponse, target: string): boolean {
  return !RESOLVED.test(target) && body.includes(JSON.stringify(target).slice(1, -1));
}

/** Returns the shape of a response without the echoed target. */
function echoShapeOf(answer: ProbeResponse, target: string): string {
  return shapeOf({ ...answer, body: answer.body.replaceAll(JSON.stringify(target).slice(1, -1), '#') });
}

/** Returns the shapes of responses to unknown paths below open ones, where those are let in. */
async function shapesBelow(deployment: Deployment, open: readonly string[]): Promise<Set<string>> {
  const answers = await Promise.all(
    open.map(async (path) => {
      const target = `${path.replace(/\/$/, '')}${deployment.unknownPath}`;
      return { target, answer: await deployment.send({ target }) };
    }),
  );
  const letIn = answers.filter(({ answer }) => ['passed', 'unclear'].includes(verdictOf(answer)));
  return new Set(letIn.map(({ answer, target }) => echoShapeOf(answer, target)));
} // prettier-ignore
