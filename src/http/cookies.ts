/** The cookie of a login at a provider that is under way; over TLS browsers get it with `__Host-` in front. */
export const LOGIN_STATE_COOKIE = 'latchkey-login';

const [SEMICOLON, SPACE, TAB, NO_BREAK_SPACE] = [0x3b, 0x20, 0x09, 0xa0];

/**
 * Finds the values of one cookie in a `Cookie` field.
 *
 * Names are compared exactly. Old clients send the whole text of `Set-Cookie` back, attributes
 * included; those look like further cookies here and do no harm.
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

/** Whether nothing but blanks stands between a place in a `Cookie` field and the start of its pair. */
function beginsPair(field: string, at: number): boolean {
  let before = at - 1;
  while (before >= 0 && isBlank(field.charCodeAt(before))) before -= 1;
  return before < 0 || field.charCodeAt(before) === SEMICOLON;
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB || code === NO_BREAK_SPACE;
}

/** Where the pairs of a `Cookie` field begin and end that contain a text. The others are not looked at one by one. */
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

/** Attributes of the session cookie that depend on the moment. */
export interface SessionCookie {
  readonly name: string;
  readonly value: string;
  /** Seconds; 0 tells the browser to forget it. */
  readonly maxAge: number;
  /** Whether the client's connection is TLS. */
  readonly secure: boolean;
}

/** The `Set-Cookie` value of the session. The pair comes first, because old clients cut there. */
export function formatSessionCookie(cookie: SessionCookie): string {
  const secure = cookie.secure || cookie.name.startsWith('__') ? '; Secure' : '';
  return `${cookie.name}=${cookie.value}; Path=/; Max-Age=${cookie.maxAge}; HttpOnly; SameSite=Lax${secure}`;
}
