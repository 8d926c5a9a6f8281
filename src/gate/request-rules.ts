import { decodePercent, segmentAt } from '../domain/path.js';
import { malformed, type Refusal } from '../domain/refusal.js';
import type { RequestHead } from '../http/head.js';
import { foldName } from '../http/protected-fields.js';
import type { Match } from '../policy/routes.js';

/**
 * The service that a request names: null on a route that has none, undefined if the request does not name it.
 */
export type NamedService = string | null | undefined;

/** Characters that every reader takes literally: no lists, no parameters, no second decoding. */
const PLAIN_VALUE = /^[A-Za-z0-9._~:@/-]+$/;

/** Maximum number of parameters. Readers such as PHP ignore further ones. */
const MAX_PARAMETERS = 1_000;

/** Reads the service from the one field or parameter of its exact name; refuses look-alikes beside it. */
export function serviceOf(head: RequestHead, { route, path }: Match): NamedService | Refusal {
  if (route.service === null) return null;
  switch (route.service.from) {
    case 'path':
      return segmentAt(path, route.service.segment);
    case 'header':
      return onlyField(head, route.service.name);
    case 'query':
      return onlyParameter(head.query, route.service.name);
  }
}

export function isRefused(service: NamedService | Refusal): service is Refusal {
  return typeof service === 'object' && service !== null;
}

/** @param name in lower case */
function onlyField({ fields, connection }: RequestHead, name: string): string | undefined | Refusal {
  const folded = foldName(name);
  // Proxies remove what Connection names (RFC 9110 7.6.1), so the upstream would not receive it.
  if (connection?.split(',').some((option) => foldName(option.trim()) === folded) === true)
    return malformed(`Connection must not name the header ${name}, which names the service`);
  let found: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    const sent = fields[i] as string;
    if (sent.length !== name.length || foldName(sent) !== folded) continue;
    if (sent.toLowerCase() !== name) return lookAlike('header', sent, name);
    if (found !== undefined) return malformed(`the header ${name}, which names the service, was sent more than once`);
    found = fields[i + 1] as string;
    if (!PLAIN_VALUE.test(found)) return notPlain('header', name);
  } // prettier-ignore
  return found;
}

/** Some readers also separate parameters by `;`, so both readings are checked. */
function onlyParameter(query: string, name: string): string | undefined | Refusal {
  if (query === '') return undefined;
  const folded = foldName(name);
  const pairs = query.split('&', MAX_PARAMETERS + 1);
  if (pairs.length > MAX_PARAMETERS) return tooMany();
  let found: string | undefined;
  let count = 0;
  for (const pair of pairs) {
    for (const part of pair.split(';', MAX_PARAMETERS + 1)) {
      if ((count += 1) > MAX_PARAMETERS) return tooMany();
      const equals = part.indexOf('=');
      const sent = equals < 0 ? part : part.slice(0, equals);
      const read = decodeBytes(sent);
      if (read.includes('%')) return malformed('the query has a parameter whose name can be decoded in two ways');
      if (!isReadAs(read, folded)) continue;
      if (sent !== name) return lookAlike('parameter', sent, name);
      if (found !== undefined) return malformed(`the parameter ${name}, which names the service, was sent more than once`);
      found = equals < 0 || part !== pair ? '' : decodeBytes(part.slice(equals + 1));
      if (!PLAIN_VALUE.test(found)) return notPlain('parameter', name);
    }
  }
  return found;
} // prettier-ignore

/**
 * Whether some reader takes a parameter for the one with a folded name. PHP drops spaces before a name, cuts
 * it at NUL and turns most other characters into `_`; Rack and qs read `name[]` as a list; others ignore
 * case.
 */
function isReadAs(name: string, folded: string): boolean {
  const start = trimStart(name);
  const nul = start.indexOf('\0');
  const wholeValue = nul < 0 ? start : start.slice(0, nul);
  if (foldsTo(trimEnd(wholeValue), folded)) return true;
  const [base = ''] = wholeValue.replace(/^[[\]]+/, '').split(/[[\]]/, 1);
  return base !== wholeValue && foldsTo(trimEnd(trimStart(base)), folded);
}

/** Compares lengths first: folding preserves the length, and folding a long name takes time. */
function foldsTo(name: string, folded: string): boolean {
  return name.length === folded.length && foldName(name) === folded;
}

function isBlank(code: number): boolean {
  return code <= 0x20 || code === 0x2b || code === 0x7f || code === 0xa0;
}

function trimStart(text: string): string {
  let from = 0;
  while (from < text.length && isBlank(text.charCodeAt(from))) from += 1;
  return text.slice(from);
}

function trimEnd(text: string): string {
  let to = text.length;
  while (to > 0 && isBlank(text.charCodeAt(to - 1))) to -= 1;
  return text.slice(0, to);
}

/** Decodes `%XX`, each to one character. A remaining `%` was not an escape, or was an escaped `%`. */
function decodeBytes(text: string): string {
  if (!text.includes('%')) return text;
  const bytes = Buffer.from(text, 'latin1');
  return decodePercent(bytes, 0, bytes.length).toString('latin1');
}

function tooMany(): Refusal {
  return malformed(`the query has more than ${MAX_PARAMETERS} parameters`);
}

function lookAlike(kind: string, sent: string, name: string): Refusal {
  return malformed(
    `the ${kind} ${sent} can be mistaken for ${name}, which names the service; send only ${name}`,
  );
}

function notPlain(kind: string, name: string): Refusal {
  return malformed(
    `the ${kind} ${name}, which names the service, may contain only letters, digits and "-._~:@/"`,
  );
}
