/** Another spelling of a path. */
export interface Reading {
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

/** Paths that proxies often exempt from the check. */
export const OPEN_PATHS: readonly string[] = [
  '/static/', '/public/', '/assets/', '/images/', '/css/', '/js/', '/docs/', '/health', '/healthz', '/favicon.ico', '/robots.txt',
  '/login', '/_latchkey/', '/.well-known/',
]; // prettier-ignore

/** Prefixes below which a proxy may serve the API without the check. */
export const PREFIXES: readonly string[] = [
  '/api', '/_api', '/app', '/backend', '/upstream', '/origin', '/direct', '/raw', '/proxy', '/internal', '/private', '/admin', '/old',
  '/dev', '/test', '/v1', '/v2',
]; // prettier-ignore

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
export function readingsOf(path: string, origin: string): Reading[] {
  const rest = path.slice(1);
  const slash = path.lastIndexOf('/');
  const isDeep = slash > 0;
  const inner = (by: string) => `${path.slice(0, slash)}${by}${path.slice(slash + 1)}`;
  return [
    same('two leading slashes', `/${path}`),
    same('three leading slashes', `//${path}`),
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
    same('a traversal with an encoded slash in upper case', `/ldr/..%2F${rest}`),
    same('a traversal encoded in upper case', `/ldr/%2E%2E${path}`),
    same('a traversal with an encoded backslash in upper case', `/ldr%5C..%5C${rest}`),
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
    same('an encoded last letter', encoded(path, path.length - 1)),
    similar('a fullwidth letter', fullwidth(path)),
    same('the absolute form', `${origin}${path}`),
    same('the absolute form of another host', `http://latchkey-doctor.invalid${path}`),
    same('a fragment', `${path}#ldr`),
    same('a query', `${path}?`),
    same('a query with a path', `${path}?/../status`),
    same('a trailing slash', `${path}/`),
    same('two trailing slashes', `${path}//`),
    same('a trailing dot segment', `${path}/.`),
    same('a trailing traversal', `${path}/ldr/..`),
    same('a trailing parameter', `${path};ldr=1`),
    same('a trailing parameter like a file', `${path};ldr.css`),
    same('an encoded trailing slash', `${path}%2f`),
    same('an encoded question mark', `${path}%3f`),
    same('a trailing encoded NUL', `${path}%00`),
    same('a trailing encoded NUL and a file', `${path}%00.css`),
    ...(isDeep
      ? [
          same('an encoded slash', inner('%2f')),
          same('an encoded slash in upper case', inner('%2F')),
          same('an overlong slash', inner('%c0%af')),
          same('a doubly encoded slash', inner('%252f')),
          same('two slashes', inner('//')),
          same('a backslash', inner('\\')),
          same('an encoded backslash', inner('%5c')),
          same('a parameter', inner(';ldr=1/')),
          same('an inner dot segment', inner('/./')),
          same('an inner traversal', inner('/ldr/../')),
          same('an inner encoded traversal', inner('/ldr/%2e%2e/')),
          same('an encoded backslash in upper case', inner('%5C')),
          same('a fullwidth slash', inner('%ef%bc%8f')),
        ]
      : []),
    similar('upper case', path.toUpperCase()),
    similar('the first letter in upper case', `/${rest.charAt(0).toUpperCase()}${rest.slice(1)}`),
    similar('the last segment in another case', `${path.slice(0, slash)}${otherCase(path.slice(slash))}`),
    similar('a trailing /health', `${path}/health`),
    similar('a trailing /healthz', `${path}/healthz`),
    same(
      'a query that asks for a smaller response',
      `${path}?debug=1&test=1&internal=1&admin=1&noauth=1&bypass=1&public=1`,
    ),
    similar('a trailing dot', `${path}.`),
    similar('a trailing encoded dot', `${path}%2e`),
    similar('a trailing encoded space', `${path}%20`),
    similar('a trailing encoded tab', `${path}%09`),
    similar('a trailing encoded line end', `${path}%0a`),
    similar('a trailing file', `${path}/ldr.css`),
    similar('a trailing name of a public file', `${path}/favicon.ico`),
    ...ENDINGS.map((end) => similar(`the ending .${end}`, `${path}.${end}`)),
    ...FILES.flatMap((end) => [
      same(`a parameter like .${end}`, `${path};ldr.${end}`),
      same(`a query like .${end}`, `${path}?ldr.${end}`),
      similar(`an encoded line end and .${end}`, `${path}%0a.${end}`),
      similar(`an encoded question mark and .${end}`, `${path}%3f.${end}`),
      similar(`a file .${end}`, `${path}/ldr.${end}`),
    ]),
    same('a query with names of open paths', `${path}?${OPEN_PATHS.join('&')}`),
    similar('a trailing ~', `${path}~`),
  ].filter(({ target }, i, all) => target !== path && all.findIndex((one) => one.target === target) === i);
}

/** Returns the path below prefixes that a proxy may strip. */
export function readingsBelow(path: string): Reading[] {
  return PREFIXES.map((prefix) => same(`below ${prefix}`, `${prefix}${path}`));
}

/** Returns targets that begin with an often exempted path and lead to a protected one. */
export function readingsThroughUsual(path: string): Reading[] {
  return OPEN_PATHS.flatMap((open) => {
    const base = open.replace(/\/$/, '');
    const up = (step: string) => step.repeat(base.split('/').length - 1);
    return [
      same(`${open} and a traversal`, `${base}${up('/..')}${path}`),
      same(`${open} and an encoded traversal`, `${base}${up('/%2e%2e')}${path}`),
      same(`${open} and a traversal with encoded slashes`, `${base}${up('%2f..')}%2f${path.slice(1)}`),
      same(`${open} and a traversal with a parameter`, `${base}${up('/..;')}${path}`),
      same(`${open} without its slash and a traversal`, `${base}..${path}`),
    ];
  });
}

/**
 * Returns targets that begin with a protected path and lead to a public one. A server that does not
 * normalize serves them by their prefix.
 */
export function readingsBack(path: string, open: string): Reading[] {
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
export function readingsThrough(open: string, path: string): Reading[] {
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
