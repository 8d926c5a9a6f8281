/** Prefixes that browsers know, in any case (RFC 6265bis 5.4, 4.1.3). */
const PREFIX = /^__(?:host-http|host|http|secure)-/;

/**
 * Whether some browser takes a Set-Cookie value for one that sets a cookie of Latchkey's own.
 *
 * A cookie without a name counts: browsers send its value alone, and that may read `service.session=...`. Names are compared
 * without case, space and control characters, which browsers differ in.
 */
export function mayBeOwnCookie(setCookie: string, ownCookies: readonly string[]): boolean {
  const equals = setCookie.indexOf('=');
  const semicolon = setCookie.indexOf(';');
  if (equals < 0 || (semicolon >= 0 && semicolon < equals)) return true;
  const name = foldCookieName(setCookie.slice(0, equals));
  if (name === '') return true;
  const bare = name.replace(PREFIX, '');
  return ownCookies.some((own) => own.toLowerCase().replace(PREFIX, '') === bare);
}

function foldCookieName(name: string): string {
  let folded = '';
  for (const character of name) if (character > ' ' && character !== '\x7f') folded += character;
  return folded.toLowerCase();
}

/** A Clear-Site-Data value without the directives that end the session; undefined when nothing is left. */
export function withoutCookieClearing(clearSiteData: string): string | undefined {
  const kept = clearSiteData.split(',').filter((directive) => !clearsCookies(directive));
  return kept.length === 0 ? undefined : kept.join(',').trim();
}

function clearsCookies(directive: string): boolean {
  return directive.includes('*') || /cookie/i.test(directive);
}
