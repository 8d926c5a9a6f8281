/**
 * Finds the values of one cookie in a `Cookie` field.
 *
 * Names are compared exactly. Old clients send the whole text of `Set-Cookie` back, attributes
 * included; those look like further cookies here and do no harm.
 */
export function cookieValues(field: string, name: string): string[] {
  const values: string[] = [];
  for (const [start, end] of pairsWith(field, name)) {
    const pair = field.slice(start, end).trim();
    if (pair.startsWith(name) && pair.charAt(name.length) === '=') values.push(pair.slice(name.length + 1));
  }
  return values;
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
