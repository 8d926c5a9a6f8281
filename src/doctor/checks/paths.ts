import type { Check, Deployment } from '../check.js';
import { type ProbeResponse, verdictOf } from '../client.js';
import { type Alteration, findingsOf, shapeOf, tryOnRefused } from '../compare.js';

/** Paths that proxies often exempt from the check. */
const OPEN_PATHS: readonly string[] = [
  '/static/',
  '/public/',
  '/assets/',
  '/docs/',
  '/health',
  '/login',
  '/_latchkey/',
];

export const pathReadings: Check = {
  name: 'paths',
  title: 'Alternative readings of a path',
  remedy:
    'Authorize the path that the API will see: forward the target unchanged after the decision (nginx: $request_uri in X-Original-URI, no path in proxy_pass), refuse dot segments, encoded slashes, backslashes and ";" (Latchkey does), and let no location, prefix or suffix rule of the proxy skip the check.',
  async run(deployment) {
    const { subjects, options } = deployment;
    const isOpen = subjects.some(({ kind, verdict }) => kind === 'unknown' && verdict !== 'refused');
    const known = options.publicPaths.filter((path) => path !== '/');
    const open = [...new Set([...known, ...OPEN_PATHS])];
    const publicShapes = new Set(subjects.filter(({ kind }) => kind === 'public').map(({ baseline }) => shapeOf(baseline)));
    const sites = await shapesBelow(deployment, open);
    // What every path below an open one gets comes from a separate site.
    const isSite = (answer: ProbeResponse, target: string) => sites.has(shapeWithout(answer, target));
    const results = await tryOnRefused(deployment, ({ path }) => {
      const { same, similar } = readingsOf(path, options.url.origin);
      return [
        ...[...same, ...(isOpen ? [] : similar)].map((target) => alteration(target)),
        ...open.flatMap((one) => readingsThrough(one, path, isOpen)).map((target) => alteration(target, (answer) => isSite(answer, target))),
        // A target that is normalized before the decision may be the public path itself.
        ...known.flatMap((one) => readingsBack(path, one)).map((target) => alteration(target, (answer) => publicShapes.has(shapeOf(answer)))),
      ];
    });
    return { findings: findingsOf(results, 'An alternative reading of a path'), seen: `${results.tried} alternative readings of refused paths are refused` };
  },
}; // prettier-ignore

function alteration(target: string, isElsewhere?: Alteration['isElsewhere']): Alteration {
  return { label: target, probe: { target }, ...(isElsewhere && { isElsewhere }) };
}

/** Returns the shapes of responses to unknown paths below open ones, where those are let in. */
async function shapesBelow(deployment: Deployment, open: readonly string[]): Promise<Set<string>> {
  const shapes = new Set<string>();
  await Promise.all(
    open.map(async (path) => {
      const target = `${path.replace(/\/$/, '')}${deployment.unknownPath}`;
      const answer = await deployment.send({ target });
      if (['passed', 'unclear'].includes(verdictOf(answer))) shapes.add(shapeWithout(answer, target));
    }),
  );
  return shapes;
}

function shapeWithout(answer: ProbeResponse, target: string): string {
  return shapeOf({ ...answer, body: answer.body.replaceAll(JSON.stringify(target).slice(1, -1), '#') });
}

const ENDINGS: readonly string[] = ['json', 'xml', 'html', 'css', 'js', 'map', 'png', 'jpg', 'gif', 'svg', 'ico', 'woff2', 'txt', 'pdf']; // prettier-ignore
/** Endings that most rules for files contain. */
const FILES: readonly string[] = ['css', 'png'];

function encoded(path: string, times = 1): string {
  const code = path.charCodeAt(1).toString(16).padStart(2, '0');
  return `/%${'25'.repeat(times - 1)}${code}${path.slice(2)}`;
}

/** Replaces the first letter by its fullwidth form, which NFKC maps back. */
function fullwidth(path: string): string {
  const code = path.charCodeAt(1);
  const isLetter = code >= 0x61 && code <= 0x7a;
  return isLetter ? `/%ef%bd%${(code - 0x61 + 0x81).toString(16)}${path.slice(2)}` : path;
}

function otherCase(text: string): string {
  return text === text.toLowerCase() ? text.toUpperCase() : text.toLowerCase();
}

/**
 * `same`: every reader that normalizes gets the path itself. `similar`: each is the same resource to some
 * server; where unnamed paths are let in, they prove nothing.
 */
function readingsOf(path: string, origin: string) {
  const slash = path.lastIndexOf('/');
  const [parent, last] = [path.slice(0, slash), path.slice(slash + 1)];
  const inner = slash > 0 ? ['%2f', '%2F', '%c0%af', '%252f', '//', '\\', ';ldr=1/', '/./', '/ldr/../', '/ldr/%2e%2e/', '%ef%bc%8f'] : [];
  const same = [
    ...['/', '/.', '/%2e', '/;ldr=1', origin, 'http://latchkey-doctor.invalid'].map((start) => start + path),
    ...['..', '%2e%2e', '.%2e', '..;', '%2E%2E', '%u002e%u002e', '%ef%bc%8e%ef%bc%8e'].map((dots) => `/ldr/${dots}${path}`),
    ...['/..%2f', '%2f..%2f', '\\..\\', '%5c..%5c', '/%252e%252e%252f', '/%25252e%25252e%25252f', '/%c0%ae%c0%ae/'].map((dots) => `/ldr${dots}${path.slice(1)}`),
    ...['\\', '/\\', '/%2f'].map((start) => start + path.slice(1)),
    encoded(path),
    encoded(path, 2),
    ...inner.map((by) => parent + by + last),
    ...['#ldr', '/', '//', '/.', '/ldr/..', '%3f', '%00.css', ...FILES.flatMap((end) => [`;ldr.${end}`, `?ldr.${end}`])].map((end) => path + end),
  ];
  const similar = [
    fullwidth(path),
    path.toUpperCase(),
    `${parent}${otherCase(path.slice(slash))}`,
    ...['/health', '/healthz', '.', '%20', '%0a', '/favicon.ico', ...ENDINGS.map((end) => `.${end}`)].map((end) => path + end),
    ...FILES.flatMap((end) => [`%0a.${end}`, `%3f.${end}`, `/ldr.${end}`]).map((end) => path + end),
  ];
  const others = (targets: readonly string[]) => [...new Set(targets)].filter((target) => target !== path);
  return { same: others(same), similar: others(similar) };
} // prettier-ignore

/** A server that does not normalize serves these targets by their prefix, the protected path. */
function readingsBack(path: string, open: string): string[] {
  const up = (step: string) => step.repeat(path.split('/').length - 1);
  const direct = ['/..', '/%2e%2e'].map((step) => `${path}${up(step)}${open}`);
  const behind = ['%3f/..', '%23/..', ';', '?/..'].map((start) => `${path}${start}${up('/..')}${open}`);
  return [...direct, `${path}${up('%2f..')}%2f${open.slice(1)}`, ...behind];
}

function readingsThrough(open: string, path: string, isOpen: boolean): string[] {
  const base = open.replace(/\/$/, '');
  const up = (step: string) => step.repeat(Math.max(base.split('/').length - 1, 1));
  return [
    ...['/..', '/%2e%2e', '/.%2e', '/..;'].map((step) => `${base}${up(step)}${path}`),
    ...[`${up('%2f..')}%2f`, `/${up('..%2f')}`, `${up('\\..')}\\`, `${up('%5c..')}%5c`, `${up('%252f%252e%252e')}%252f`].map((way) => `${base}${way}${path.slice(1)}`),
    `${base};${up('/..')}${path}`,
    `${base}..${path}`,
    `${path}?${open}`,
    `${path}#${open}`,
    ...(isOpen ? [] : [`${path}${base}`]),
  ];
} // prettier-ignore
