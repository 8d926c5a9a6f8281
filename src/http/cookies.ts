/** Start of the names of the cookies of provider logins; over TLS they have the prefix `__Host-`. */
export const LOGIN_STATE_COOKIE = 'latchkey-login-';

/** Cookie name prefixes known to browsers, in any case (RFC 6265bis 5.4, 4.1.3). */
const PREFIX = /^__(?:host-http|host|http|secure)-/;

/** Where clients end a pair: some split a `Set-Cookie` at commas too, as RFC 2109 did. */
const SEPARATORS = /[;,]/;

const [SEMICOLON, SPACE, TAB] = [0x3b, 0x20, 0x09];

/**
 * Returns the values of one cookie, by its exact name. Old clients send back the whole `Set-Cookie`; its
 * attributes look like further cookies and do no harm.
 */
export function cookieValues(field: string, name: string): string[] {
  const values: string[] = [];
  const start = `${name}=`;
  for (let at = field.indexOf(start); at >= 0; at = field.indexOf(start, at + start.length)) {
    if (!beginsPair(field, at)) continue;
    const semicolon = field.indexOf(';', at);
    values.push(field.slice(at + start.length, semicolon < 0 ? field.length : semicolon).trimEnd());
  }
  return values;
}

/** Returns names and values of the cookies in a `Cookie` field whose names have a common start. */
export function cookiesFrom(field: string, start: string): [name: string, value: string][] {
  const cookies: [string, string][] = [];
  for (const [from, end] of pairsWith(field, start)) {
    const pair = field.slice(from, end).trim();
    const equals = pair.indexOf('=');
    if (equals >= start.length && pair.startsWith(start))
      cookies.push([pair.slice(0, equals), pair.slice(equals + 1)]);
  }
  return cookies;
}

function beginsPair(field: string, at: number): boolean {
  let before = at - 1;
  while (before >= 0 && isBlank(field.charCodeAt(before))) before -= 1;
  return before < 0 || field.charCodeAt(before) === SEMICOLON;
}

/** The whitespace around a pair (RFC 6265bis 5.6), and no other, because clients differ there. */
function isBlank(code: number): boolean {
  return code === SPACE || code === TAB;
}

/**
 * Whether a client that receives a `Set-Cookie` may later send one of some cookies. Whatever {@link
 * cookieValues} finds in it counts, because old clients send back the whole text, and so does a nameless
 * cookie, of which browsers send only the value.
 */
export function maySetCookie(setCookie: string, names: readonly string[]): boolean {
  if (comparableName(setCookie.split(';', 1)[0] as string) === '') return true;
  const compared = names.map((name) => withoutPrefix(name.toLowerCase()));
  return setCookie.split(SEPARATORS).some((pair) => {
    const found = comparableName(pair);
    return compared.some((name) => isNamed(found, name));
  });
}

/** Whether a cookie's name is one of Latchkey's, or that of a login state. */
export function isNamed(found: string, name: string): boolean {
  return name === LOGIN_STATE_COOKIE ? found.startsWith(name) : found === name;
}

/**
 * The name as the most lenient client may understand it: clients treat case, prefixes, spaces, control
 * characters and bytes outside ASCII differently.
 */
function comparableName(pair: string): string {
  const equals = Math.max(0, pair.indexOf('='));
  return withoutPrefix(pair.slice(0, equals).replace(/[^!-~]/g, '').toLowerCase()); // prettier-ignore
}

function withoutPrefix(name: string): string {
  return name.replace(PREFIX, '');
}

/** Yields the start and end of each `Cookie` pair that contains a text. */
export function* pairsWith(field: string, text: string): Generator<readonly [start: number, end: number]> {
  for (let from = 0; from < field.length; ) {
    const at = field.indexOf(text, from);
    if (at < 0) return;
    const start = at === 0 ? 0 : field.lastIndexOf(';', at - 1) + 1;
    const semicolon = field.indexOf(';', at);
    const end = semicolon < 0 ? field.length : semicolon;
    yield [start, end];
    from = end + 1;
  }
} // prettier-ignore

export interface SessionCookie {
  readonly name: string;
  readonly value: string;
  /** Seconds; 0 deletes the cookie. */
  readonly maxAge: number;
  /** Whether the client's connection is TLS. */
  readonly secure: boolean;
}

/** The pair comes first: old clients cut after it. */
export function formatSessionCookie(cookie: SessionCookie): string {
  const secure = cookie.secure || cookie.name.startsWith('__') ? '; Secure' : '';
  return `${cookie.name}=${cookie.value}; Path=/; Max-Age=${cookie.maxAge}; HttpOnly; SameSite=Lax${secure}`;
}
