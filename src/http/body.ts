import { isUtf8 } from 'node:buffer';
import { isExactNumber, parseUntrustedJson } from '../util/json.js';
import { malformed, type Refusal } from '../domain/refusal.js';
import { decodePercent } from '../domain/path.js';

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
  return name.replace(/\[\d*\]$/, '');
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
    return JSON_START.test(text) ? malformed(JSON_AS_FORM) : parseForm(text);
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

/**
 * Reads the pairs of a form (WHATWG URL 5.1). One that is not UTF-8 is refused: a decoder that substitutes
 * characters would make two different passwords equal.
 */
function parseForm(text: string): Body | Refusal {
  const params = new Params();
  for (let start = 0, end; start < text.length; start = end + 1) {
    end = indexOrEnd(text, '&', start);
    if (end === start) continue;
    if (params.size === MAX_PARAMETERS) return tooMany();
    const pair = text.slice(start, end);
    const equals = indexOrEnd(pair, '=');
    const name = decodeComponent(pair.slice(0, equals));
    const value = decodeComponent(pair.slice(equals + 1));
    if (name === undefined || value === undefined) return malformed('the form is not percent-encoded UTF-8');
    params.add(name, value);
  }
  return { params, json: undefined };
}

function indexOrEnd(text: string, character: string, start = 0): number {
  const index = text.indexOf(character, start);
  return index < 0 ? text.length : index;
}

/** Decodes a name or value of a form; undefined when it is not UTF-8. */
function decodeComponent(text: string): string | undefined {
  const component = decodePercent(Buffer.from(text.replaceAll('+', ' ')));
  return isUtf8(component) ? component.toString() : undefined;
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
