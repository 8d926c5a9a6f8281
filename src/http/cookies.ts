/** Cookie of a provider login in progress; over TLS its name has the prefix `__Host-`. */
export const LOGIN_STATE_COOKIE = 'latchkey-login';

const [SEMICOLON, SPACE, TAB, NO_BREAK_SPACE] = [0x3b, 0x20, 0x09, 0xa0];

/**
 * Returns the values of one cookie in a `Cookie` field.
 *
 * Names are compared exactly. Old clients send back the whole text of `Set-Cookie`, attributes
 * included; these look like further cookies and do no harm.
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

/** Returns whether an offset in a `Cookie` field starts a pair, apart from whitespace. */
function beginsPair(field: string, at: number): boolean {
  let before = at - 1;
  while (before >= 0 && isBlank(field.charCodeAt(before))) before -= 1;
  return before < 0 || field.charCodeAt(before) === SEMICOLON;
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB || code === NO_BREAK_SPACE;
}

/**
 * Yields the start and end of each `Cookie` pair that contains a text, skipping over the others.
 */
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

/** The variable parts of the session cookie. */
export interface SessionCookie {
  readonly name: string;
  readonly value: string;
  /** Seconds; 0 deletes the cookie. */
  readonly maxAge: number;
  /** Whether the client's connection is TLS. */
  readonly secure: boolean;
}

/**
 * Formats the `Set-Cookie` value of the session. The pair comes first: old clients cut after it.
 */
export function formatSessionCookie(cookie: SessionCookie): string {
  const secure = cookie.secure || cookie.name.startsWith('__') ? '; Secure' : '';
  return `${cookie.name}=${cookie.value}; Path=/; Max-Age=${cookie.maxAge}; HttpOnly; SameSite=Lax${secure}`;
}
