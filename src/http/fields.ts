/**
 * Folds a field name to the one form in which protected names are compared.
 *
 * CGI, WSGI and PHP turn `-`, `_` and often `.` into the same variable name, so `X_Auth_User_Id` must not
 * pass where `X-Auth-User-Id` is removed.
 */
export function foldName(name: string): string {
  return name.toLowerCase().replaceAll('_', '-').replaceAll('.', '-');
}

/**
 * The same name as V8 keeps the names of properties. The client library looks each name of each request up in a table; one that was
 * received or put together costs it 600 instructions each time, this one a tenth of that (counted).
 */
export function asPropertyName(name: string): string {
  return Object.keys({ [name]: true })[0] as string;
}

/** The first value of a field as it was received; undefined when it is not there. @param name in lower case */
export function firstField(fields: readonly string[], name: string): string | undefined {
  const at = fields.findIndex((text, i) => i % 2 === 0 && text.toLowerCase() === name);
  return at < 0 ? undefined : fields[at + 1];
}

/**
 * Folded names of fields by which an upstream may take another method or target than the request line's, and so
 * another one than was judged.
 */
export const JUDGEMENT_OVERRIDES: readonly string[] = [
  'x-original-url',
  'x-original-uri',
  'x-original-method',
  'x-rewrite-url',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
];

/**
 * Folded names of request fields that a client never gets through to an upstream: addresses and
 * overrides that upstreams trust a proxy for, hop-by-hop fields (RFC 9110 7.6.1), and framing,
 * which the forwarder writes itself. Identity and credential names of the configuration come on top.
 */
export const NEVER_FORWARDED: readonly string[] = [
  ...JUDGEMENT_OVERRIDES,
  'connection',
  'keep-alive',
  'proxy',
  'proxy-connection',
  'proxy-authorization',
  'proxy-authenticate',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'content-length',
  'host',
  'expect',
  'forwarded',
  'x-real-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'true-client-ip',
  'x-original-host',
  'x-request-id',
];

/** Folded beginning of the names that say what a proxy in front saw. They are rewritten, never passed on. */
export const FORWARDED_PREFIX = 'x-forwarded-';
