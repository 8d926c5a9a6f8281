import { foldName } from '../http/protected-fields.js';

/**
 * A request as an upstream receives it: a `node:http`, Express or Fastify request, a Fetch
 * `Request`, or any object with these members.
 */
export interface VerifiableRequest {
  readonly method?: string | undefined;
  /** The target as received, or a whole URL. */
  readonly url?: string | undefined;
  /** The target before a framework changed it. */
  readonly originalUrl?: string | undefined;
  /** Alternating names and values. */
  readonly rawHeaders?: readonly string[] | undefined;
  readonly headers: FetchHeaders | Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** The parts of `Headers` that are used. Its types differ between platforms. */
interface FetchHeaders {
  forEach(each: (value: string, name: string) => void): void;
}

/**
 * Returns the header fields as alternating names and values, with repeated fields where the request
 * preserves them.
 */
export function fieldsOf({ rawHeaders, headers }: VerifiableRequest): readonly string[] {
  if (rawHeaders !== undefined) return rawHeaders;
  const fields: string[] = [];
  if (isFetchHeaders(headers)) headers.forEach((value, name) => fields.push(name, value));
  else
    for (const [name, value] of Object.entries(headers))
      for (const each of [value ?? []].flat()) fields.push(name, each);
  return fields;
}

/** Returns the request target, byte for byte. */
export function targetOf({ originalUrl, url = '', rawHeaders, headers }: VerifiableRequest): string {
  if (originalUrl !== undefined) return originalUrl;
  // Only a Request has a whole URL. Elsewhere it is a target in absolute form, which Latchkey never
  // sends.
  if (rawHeaders !== undefined || !isFetchHeaders(headers)) return url;
  const [origin] = /^https?:\/\/[^/?#]*/i.exec(url) ?? [''];
  return url.slice(origin.length);
}

/**
 * Finds the fields that some reader takes for a name.
 *
 * @returns the number of such fields, and the values of those spelled exactly like the name
 */
export function valuesOf(fields: readonly string[], name: string): { folded: number; exact: string[] } {
  const lower = name.toLowerCase();
  const wanted = foldName(name);
  const exact: string[] = [];
  let folded = 0;
  for (let i = 0; i < fields.length; i += 2) {
    const each = fields[i] as string;
    if (foldName(each) !== wanted) continue;
    folded += 1;
    if (each.toLowerCase() === lower) exact.push(fields[i + 1] as string);
  }
  return { folded, exact };
}

function isFetchHeaders(headers: VerifiableRequest['headers']): headers is FetchHeaders {
  return typeof headers['forEach' as keyof typeof headers] === 'function';
}
