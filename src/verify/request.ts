import { foldName } from '../http/protected-fields.js';

/**
 * A request as an upstream has it: of `node:http`, Express or Fastify, a `Request` of the Fetch standard, or an object with
 * these members.
 */
export interface VerifiableRequest {
  readonly method?: string | undefined;
  /** The target as it was received, or a whole URL. */
  readonly url?: string | undefined;
  /** The same before a framework changed it. */
  readonly originalUrl?: string | undefined;
  /** Names and values, in turn. */
  readonly rawHeaders?: readonly string[] | undefined;
  readonly headers: FetchHeaders | Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** What is used of `Headers`, whose types differ between platforms. */
interface FetchHeaders {
  forEach(each: (value: string, name: string) => void): void;
}

/** Its fields: names and values, in turn, each as often as it was sent where the request tells that. */
export function fieldsOf({ rawHeaders, headers }: VerifiableRequest): readonly string[] {
  if (rawHeaders !== undefined) return rawHeaders;
  const fields: string[] = [];
  if (isFetchHeaders(headers)) headers.forEach((value, name) => fields.push(name, value));
  else
    for (const [name, value] of Object.entries(headers))
      for (const each of [value ?? []].flat()) fields.push(name, each);
  return fields;
}

/** Its target, byte for byte. */
export function targetOf({ originalUrl, url = '', rawHeaders, headers }: VerifiableRequest): string {
  if (originalUrl !== undefined) return originalUrl;
  // Only a Request has a whole URL. Elsewhere that is a target in absolute form, which Latchkey never sends.
  if (rawHeaders !== undefined || !isFetchHeaders(headers)) return url;
  const [origin] = /^https?:\/\/[^/?#]*/i.exec(url) ?? [''];
  return url.slice(origin.length);
}

/** Values of the fields that some reader takes for a name, and those that are spelled as it is. */
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
