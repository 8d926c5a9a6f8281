import type { Check, Deployment } from '../check.js';
import type { ProbeResponse } from '../client.js';
import { type Alteration, findingsOf, shapeOf, tryOnRefused, verdictOf } from '../compare.js';

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

/** Whether a refused path is refused in every spelling. */
export const pathReadings: Check = {
  name: 'paths',
  title: 'Alternative readings of a path',
  remedy:
    'Authorize the path that the API will see: forward the target unchanged after the decision (nginx: $request_uri in X-Original-URI, no path in proxy_pass), refuse dot segments, encoded slashes, backslashes and ";" (Latchkey does), and let no location, prefix or suffix rule of the proxy skip the check.',
  async run(deployment) {
    const { subjects, options } = deployment;
    const isOpen = subjects.some(({ kind, verdict }) => kind === 'unknown' && verdict !== 'refused');
    const open = [...new Set([...options.publicPaths.filter((path) => path !== '/'), ...OPEN_PATHS])];
    const publicShapes = new Set(subjects.filter(({ kind }) => kind === 'public').map(({ baseline }) => shapeOf(baseline)));
    const sites = await shapesBelow(deployment, open);
    // What every path below an open one gets comes from a separate site, unless it looks like the API.
    const isSite = (answer: ProbeResponse, target: string) =>
      sites.has(shapeWithout(answer, target)) && (!isOfApi(deployment, answer) || showsAsSent(answer, target));
    const results = await tryOnRefused(deployment, ({ path }) => [
      ...readingsOf(path, options.url.origin).map((reading) => alteration(reading)),
      ...open.flatMap((one) => readingsThrough(one, path)).map((reading) => alteration(reading, isSite)),
      // A target that is normalized before the decision may be the public path itself.
      ...options.publicPaths.filter((one) => one !== '/').flatMap((one) => readingsBack(path, one)).map((reading) => alteration(reading, (answer) => publicShapes.has(shapeOf(answer)))),
    ].filter(({ isSame }) => isSame || !isOpen));
    return { findings: findingsOf(results, 'An alternative reading of a path'), seen: `${results.tried} alternative readings of refused paths are refused` };
  },
}; // prettier-ignore

/** Whether a response looks like one that the API gave before. */
function isOfApi({ subjects, options }: Deployment, answer: ProbeResponse): boolean {
  const showsAgent = ({ body }: ProbeResponse) => body.includes(`latchkey-doctor/${options.version}`);
  return subjects.some(
    ({ verdict, baseline }) =>
      verdict === 'passed' &&
      (shapeOf(baseline) === shapeOf(answer) || (showsAgent(baseline) && showsAgent(answer))),
  );
}

/** Syntax that some servers resolve to another path. */
const RESOLVED = /\/\.\.?(?:\/|;|$)|%2e|%2f|%5c|\\|;|\/\/|#/i;

/** Whether an API that echoes its target shows this one as sent, and no server resolves it. */
function showsAsSent({ body }: ProbeResponse, target: string): boolean {
  return !RESOLVED.test(target) && body.includes(JSON.stringify(target).slice(1, -1));
}

/** Where unnamed paths are let in anyway, another resource is no bypass: then only `isSame` counts. */
function alteration(
  { label, target, isSame }: Reading,
  isElsewhere: (answer: ProbeResponse, target: string) => boolean = () => false,
): Alteration & { readonly isSame: boolean } {
  return {
    label: `${target} (${label})`,
    probe: { target },
    isSame,
    isElsewhere: (answer) => isElsewhere(answer, target),
  };
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

/** Returns the shape of a response without the echoed target. */
function shapeWithout(answer: ProbeResponse, target: string): string {
  return shapeOf({ ...answer, body: answer.body.replaceAll(JSON.stringify(target).slice(1, -1), '#') });
}

/** Another spelling of a path. */
interface Reading {
  readonly label: string;
  readonly target: string;
  /**
   * Whether every reader that normalizes gets the same path; otherwise it may be another resource.
   */
  readonly isSame: boolean;
}

const same = (label: string, target: string): Reading => ({ label, target, isSame: true });
const similar = (label: string, target: string): Reading => ({ label, target, isSame: false });

const ENDINGS: readonly string[] = ['json', 'xml', 'html', 'css', 'js', 'map', 'png', 'jpg', 'gif', 'svg', 'ico', 'woff2', 'txt', 'pdf']; // prettier-ignore
/** Endings that most rules for files contain. */
const FILES: readonly string[] = ['css', 'png'];

/** Percent-encodes one character of a path, `times` times. */
function encoded(path: string, at: number, times = 1): string {
  const code = path.charCodeAt(at).toString(16).padStart(2, '0');
  return `${path.slice(0, at)}%${'25'.repeat(times - 1)}${code}${path.slice(at + 1)}`;
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
 * Returns other spellings of a path, each of which means the same resource to some server.
 *
 * @param origin of the deployment
 */
function readingsOf(path: string, origin: string): Reading[] {
  const rest = path.slice(1);
  const slash = path.lastIndexOf('/');
  const isDeep = slash > 0;
  const inner = (by: string) => `${path.slice(0, slash)}${by}${path.slice(slash + 1)}`;
  return [
    same('two leading slashes', `/${path}`),
    same('a dot segment', `/.${path}`),
    same('an encoded dot segment', `/%2e${path}`),
    same('a traversal', `/ldr/..${path}`),
    same('an encoded traversal', `/ldr/%2e%2e${path}`),
    same('a half-encoded traversal', `/ldr/.%2e${path}`),
    same('a traversal with an encoded slash', `/ldr/..%2f${rest}`),
    same('a traversal with encoded slashes', `/ldr%2f..%2f${rest}`),
    same('a traversal with a parameter', `/ldr/..;${path}`),
    same('a traversal with a backslash', `/ldr\\..\\${rest}`),
    same('a traversal with an encoded backslash', `/ldr%5c..%5c${rest}`),
    same('a doubly encoded traversal', `/ldr/%252e%252e%252f${rest}`),
    same('a traversal encoded in upper case', `/ldr/%2E%2E${path}`),
    same('a traversal with %u', `/ldr/%u002e%u002e${path}`),
    same('a traversal of fullwidth dots', `/ldr/%ef%bc%8e%ef%bc%8e${path}`),
    same('a triply encoded traversal', `/ldr/%25252e%25252e%25252f${rest}`),
    same('an overlong traversal', `/ldr/%c0%ae%c0%ae/${rest}`),
    same('a leading parameter', `/;ldr=1${path}`),
    same('a leading backslash', `\\${rest}`),
    same('a leading slash and backslash', `/\\${rest}`),
    same('a leading encoded slash', `/%2f${rest}`),
    same('an encoded letter', encoded(path, 1)),
    same('a doubly encoded letter', encoded(path, 1, 2)),
    similar('a fullwidth letter', fullwidth(path)),
    same('the absolute form', `${origin}${path}`),
    same('the absolute form of another host', `http://latchkey-doctor.invalid${path}`),
    same('a fragment', `${path}#ldr`),
    same('a trailing slash', `${path}/`),
    same('two trailing slashes', `${path}//`),
    same('a trailing dot segment', `${path}/.`),
    same('a trailing traversal', `${path}/ldr/..`),
    same('a trailing parameter like a file', `${path};ldr.css`),
    same('an encoded question mark', `${path}%3f`),
    same('a trailing encoded NUL and a file', `${path}%00.css`),
    ...(isDeep
      ? [
          same('an encoded slash', inner('%2f')),
          same('an encoded slash in upper case', inner('%2F')),
          same('an overlong slash', inner('%c0%af')),
          same('a doubly encoded slash', inner('%252f')),
          same('two slashes', inner('//')),
          same('a backslash', inner('\\')),
          same('a parameter', inner(';ldr=1/')),
          same('an inner dot segment', inner('/./')),
          same('an inner traversal', inner('/ldr/../')),
          same('an inner encoded traversal', inner('/ldr/%2e%2e/')),
          same('a fullwidth slash', inner('%ef%bc%8f')),
        ]
      : []),
    similar('upper case', path.toUpperCase()),
    similar('the last segment in another case', `${path.slice(0, slash)}${otherCase(path.slice(slash))}`),
    similar('a trailing /health', `${path}/health`),
    similar('a trailing /healthz', `${path}/healthz`),
    similar('a trailing dot', `${path}.`),
    similar('a trailing encoded space', `${path}%20`),
    similar('a trailing encoded line end', `${path}%0a`),
    similar('a trailing name of a public file', `${path}/favicon.ico`),
    ...ENDINGS.map((end) => similar(`the ending .${end}`, `${path}.${end}`)),
    ...FILES.flatMap((end) => [
      same(`a parameter like .${end}`, `${path};ldr.${end}`),
      same(`a query like .${end}`, `${path}?ldr.${end}`),
      similar(`an encoded line end and .${end}`, `${path}%0a.${end}`),
      similar(`an encoded question mark and .${end}`, `${path}%3f.${end}`),
      similar(`a file .${end}`, `${path}/ldr.${end}`),
    ]),
  ].filter(({ target }, i, all) => target !== path && all.findIndex((one) => one.target === target) === i);
}

/**
 * Returns targets that begin with a protected path and lead to a public one. A server that does not
 * normalize serves them by their prefix.
 */
function readingsBack(path: string, open: string): Reading[] {
  const up = (step: string) => step.repeat(path.split('/').length - 1);
  const rest = open.slice(1);
  return [
    same(`a traversal to ${open}`, `${path}${up('/..')}${open}`),
    same(`an encoded traversal to ${open}`, `${path}${up('/%2e%2e')}${open}`),
    same(`a traversal with encoded slashes to ${open}`, `${path}${up('%2f..')}%2f${rest}`),
    same(`an encoded question mark and a traversal to ${open}`, `${path}%3f/..${up('/..')}${open}`),
    same(`an encoded # and a traversal to ${open}`, `${path}%23/..${up('/..')}${open}`),
    same(`a parameter and a traversal to ${open}`, `${path};${up('/..')}${open}`),
    same(`a query and a traversal to ${open}`, `${path}?/..${up('/..')}${open}`),
  ];
} // prettier-ignore

/** Returns targets that begin with a public path and lead to a protected one. */
function readingsThrough(open: string, path: string): Reading[] {
  const base = open.replace(/\/$/, '');
  const rest = path.slice(1);
  const up = (step: string) => step.repeat(Math.max(base.split('/').length - 1, 1));
  return [
    same(`${open} and a traversal`, `${base}${up('/..')}${path}`),
    same(`${open} and an encoded traversal`, `${base}${up('/%2e%2e')}${path}`),
    same(`${open} and a half-encoded traversal`, `${base}${up('/.%2e')}${path}`),
    same(`${open} and a traversal with encoded slashes`, `${base}${up('%2f..')}%2f${rest}`),
    same(`${open} and a traversal with an encoded slash`, `${base}/${up('..%2f')}${rest}`),
    same(`${open} and a traversal with a parameter`, `${base}${up('/..;')}${path}`),
    same(`${open} and a parameter with a traversal`, `${base};${up('/..')}${path}`),
    same(`${open} and a traversal with a backslash`, `${base}${up('\\..')}\\${rest}`),
    same(`${open} and a traversal with an encoded backslash`, `${base}${up('%5c..')}%5c${rest}`),
    same(`${open} and a doubly encoded traversal`, `${base}${up('%252f%252e%252e')}%252f${rest}`),
    same(`${open} without its slash and a traversal`, `${base}..${path}`),
    same(`${open} as a query`, `${path}?${open}`),
    same(`${open} as a fragment`, `${path}#${open}`),
    similar(`${open} after the path`, `${path}${base}`),
  ];
}
