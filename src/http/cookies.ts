/**
 * Finds the values of one cookie in a `Cookie` field.
 *
 * Names are compared exactly. Old clients send the whole text of `Set-Cookie` back, attributes
 * included; those look like further cookies here and do no harm.
 */
export function cookieValues(field: string, name: string): string[] {
  if (!field.includes(name)) return [];
  const values: string[] = [];
  for (const part of field.split(';')) {
    const pair = part.trim();
    if (pair.startsWith(name) && pair.charAt(name.length) === '=') values.push(pair.slice(name.length + 1));
  }
  return values;
}

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
