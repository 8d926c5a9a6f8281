import { isUtf8 } from 'node:buffer';
import { isExactNumber, parseUntrustedJson } from '../util/json.js';
import { malformed, type Refusal } from '../domain/refusal.js';
import { decodePercent } from './percent.js';

export interface Body {
  readonly params: Params;
  readonly json: object | undefined;
}

/** Maximum number of parameters in a body, list items included; no endpoint accepts as many. */
const MAX_PARAMETERS = 500;

/**
 * A bulk revocation has two values for each of 1,500 tokens. A repeated name is refused, because the value
 * that would be lost could restrict a token.
 */
const JSON_LIMITS = { values: 3_200, members: MAX_PARAMETERS, distinct: true } as const;

/** Named parameters of a form or JSON object, in order. Names never reach an object's prototype. */
export class Params {
  readonly #pairs: { readonly name: string; readonly list: string; readonly value: string }[] = [];

  add(name: string, value: string): void {
    this.#pairs.push({ name, list: listOf(name), value });
  }

  /** Returns the names that are neither in `names` nor items of `lists`. */
  otherThan(names: readonly string[], lists: readonly string[]): string[] {
    return this.#pairs
      .filter(({ name, list }) => !names.includes(name) && !lists.includes(list))
      .map(({ name }) => name);
  }

  get size(): number {
    return this.#pairs.length;
  }

  /** Returns the value of a parameter; undefined when it is absent or repeated. */
  one(name: string): string | undefined {
    const values = this.all(name);
    return values.length === 1 ? values[0] : undefined;
  }

  all(...names: string[]): string[] {
    return this.#pairs.filter((pair) => names.includes(pair.name)).map((pair) => pair.value);
  }

  /**
   * Clients write a list as a repeated `name` or `name[]`, or as `name[0]`, `name[1]`. An overlooked list
   * would leave a token without its restriction.
   */
  list(...names: string[]): string[] {
    return this.#pairs.filter((pair) => names.includes(pair.list)).map((pair) => pair.value);
  }
}

/** Returns the name of the list that a parameter belongs to: without a trailing `[]` or `[0]`. */
function listOf(name: string): string {
  if (!name.endsWith(']')) return name;
  let start = name.length - 2;
  while (start >= 0 && isDigit(name.charCodeAt(start))) start -= 1;
  return start >= 0 && name.charAt(start) === '[' ? name.slice(0, start) : name;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

const EMPTY_BODY: Body = { params: new Params(), json: undefined };

/**
 * Parses a form or JSON body. One whose parameters would all be overlooked is refused: JSON other than an
 * object, `null` or `[]`, and JSON sent as a form, as `curl --data` does.
 */
export function parseBody(bytes: Buffer, contentType: string | undefined): Body | Refusal {
  if (bytes.length === 0) return EMPTY_BODY;
  const type = ((contentType ?? '').split(';', 1)[0] as string).trim().toLowerCase();
  const text = decodeUtf8(bytes);
  if (text === undefined) return malformed('the body is not UTF-8');
  if (type === 'application/x-www-form-urlencoded')
    return JSON_START.test(text) ? malformed(JSON_AS_FORM) : parseForm(withoutMark(bytes));
  if (type === 'application/json' || type.endsWith('+json')) return parseJson(text);
  return malformed('send the body as application/x-www-form-urlencoded or application/json');
}

/** How a JSON object or list begins. A form does not: its encoders escape braces and brackets. */
const JSON_START = /^[ \t\r\n]*[{[]/;
const JSON_AS_FORM = 'the body is JSON, not a form; send it with Content-Type: application/json';

function decodeUtf8(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function parseForm(bytes: Buffer): Body | Refusal {
  const params = new Params();
  for (const pair of formPairs(bytes)) {
    if (params.size === MAX_PARAMETERS) return tooMany();
    if (pair === undefined) return malformed('the form is not percent-encoded UTF-8');
    params.add(pair[0], pair[1]);
  }
  return { params, json: undefined };
}

/** Drops a byte order mark, as decoding does. */
function withoutMark(bytes: Buffer): Buffer {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}

function parseJson(text: string): Body | Refusal {
  let json: unknown;
  try {
    json = parseUntrustedJson(text, JSON_LIMITS);
  } catch (error) {
    return malformed(error instanceof RangeError ? error.message : 'the body is not valid JSON');
  }
  if (json === null || isEmptyList(json)) return EMPTY_BODY;
  if (typeof json !== 'object' || Array.isArray(json)) return malformed('the body must be a JSON object');
  const params = new Params();
  for (const [name, value] of Object.entries(json)) {
    const values = valuesOf(value);
    if (params.size + values.length > MAX_PARAMETERS) return tooMany();
    for (const each of values) params.add(name, each);
  }
  return { params, json };
}

/** Whether a value is `[]`, which PHP writes for no parameters at all. */
function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

/**
 * `null` counts as absent. An object, an empty list, a list with an item that is not a string, and a number
 * beyond 2^53 become one empty value, which no check accepts.
 */
function valuesOf(value: unknown): readonly string[] {
  if (value === null) return [];
  if (typeof value === 'string') return [value];
  if (typeof value === 'boolean' || isExactNumber(value)) return [String(value)];
  return isTexts(value) ? value : [''];
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string');
}

function tooMany(): Refusal {
  return malformed(`the body has more than ${MAX_PARAMETERS} parameters`);
}

const [AMPERSAND, EQUALS, SPACE] = [0x26, 0x3d, 0x20];

/**
 * Yields the pairs of a form or query (WHATWG URL 5.1); undefined for one that is not UTF-8: a decoder that
 * substitutes characters would make two different passwords equal.
 */
function* formPairs(bytes: Buffer): Generator<readonly [name: string, value: string] | undefined> {
  for (let start = 0, end; start <= bytes.length; start = end + 1) {
    end = indexOrEnd(bytes, AMPERSAND, start, bytes.length);
    if (end === start) continue;
    const equals = indexOrEnd(bytes, EQUALS, start, end);
    const name = decodeComponent(bytes, start, equals);
    const value = decodeComponent(bytes, Math.min(equals + 1, end), end);
    yield name === undefined || value === undefined ? undefined : [name, value];
  }
}

function indexOrEnd(bytes: Buffer, code: number, start: number, end: number): number {
  for (let i = start; i < end; i++) if (bytes[i] === code) return i;
  return end;
}

/** Decodes a name or value of a form; undefined when it is not UTF-8. */
function decodeComponent(bytes: Buffer, start: number, end: number): string | undefined {
  const component = decodePercent(bytes, start, end, SPACE);
  return isUtf8(component) ? component.toString() : undefined;
}
