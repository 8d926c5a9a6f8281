/** Maximum nesting depth of arrays and objects; legitimate documents use only a few levels. */
const MAX_DEPTH = 64;

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [LIST, LIST_END, OBJECT, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Maximum number of comma-separated values in a whole document, and of members in one object. */
export interface JsonLimits {
  readonly values: number;
  readonly members: number;
  /** Whether an object that names a member twice is refused; otherwise the last one counts. */
  readonly distinct?: true;
}

const NO_LIMITS: JsonLimits = { values: Infinity, members: Infinity };

/**
 * Parses JSON from an untrusted source. `JSON.parse` of Node 26.10 crashes on 32 KiB of `[1,[1,[1,…` and is
 * slow for thousands of names in one object.
 * @throws SyntaxError if the text is not JSON; RangeError if it exceeds the limits
 */
export function parseUntrustedJson(text: string, limits: JsonLimits = NO_LIMITS): unknown {
  const members: number[] = [];
  let depth = 0;
  let commas = 0;
  let names = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) quoted = !quoted;
    else if (quoted) i += code === BACKSLASH ? 1 : 0;
    else if (code === LIST || code === OBJECT) {
      depth += 1;
      if (depth > MAX_DEPTH) throw new RangeError(`JSON is nested deeper than ${MAX_DEPTH} levels`);
      members[depth] = 0;
    } else if (code === LIST_END || code === OBJECT_END) depth -= 1;
    else if (code === COMMA) {
      commas += 1;
      if (commas >= limits.values) throw new RangeError(`JSON has more than ${limits.values} values`);
    } else if (code === COLON) {
      names += 1;
      const count = (members[depth] ?? 0) + 1;
      members[depth] = count;
      if (count > limits.members)
        throw new RangeError(`a JSON object has more than ${limits.members} members`);
    }
  }
  const value: unknown = JSON.parse(text);
  if (limits.distinct === true && namesIn(value) < names)
    throw new RangeError('a JSON object names a member twice');
  return value;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a number may be read as text: beyond 2^53, different ids are parsed alike. */
export function isExactNumber(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER;
}

/**
 * Returns the member of a name or JSON Pointer (RFC 6901), which begins with `/`; undefined if there is none.
 */
export function memberAt(object: Readonly<Record<string, unknown>>, place: string): unknown {
  if (!place.startsWith('/')) return Object.hasOwn(object, place) ? object[place] : undefined;
  let found: unknown = object;
  for (const part of place.slice(1).split('/')) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    const hasName = typeof found === 'object' && found !== null && Object.hasOwn(found, name);
    if (!hasName || (Array.isArray(found) && name === 'length')) return undefined;
    found = (found as Record<string, unknown>)[name];
  }
  return found;
}

/** The number of members of all objects in a JSON value. */
function namesIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const inner = Object.values(value);
  return inner.reduce<number>((sum, each) => sum + namesIn(each), Array.isArray(value) ? 0 : inner.length);
}
