/** Maximum number of names, and maximum length of one: peers may send any number, of any length. */
const MAX_NAMES = 2_000;
const MAX_LENGTH = 64;

/** Caches what was derived from field names, by name as received. When full, it starts anew. */
export class NameCache<T> {
  readonly #derived = new Map<string, T>();

  get(name: string): T | undefined {
    return this.#derived.get(name);
  }

  add(name: string, derived: T): void {
    if (name.length > MAX_LENGTH) return;
    if (this.#derived.size === MAX_NAMES) this.#derived.clear();
    this.#derived.set(name, derived);
  }
}

/** Bytes of an HTTP/1 field line besides its name and value: `: ` and the line end. */
export const LINE_BYTES = 4;

/** Returns a name as the internalized string that V8 uses for property names: look-ups take a tenth. */
export function asPropertyName(name: string): string {
  return Object.keys({ [name]: true })[0] as string;
}

/** @param name in lower case */
export function fieldValues(fields: readonly string[], name: string): string[] {
  return fields.filter((_, i) => i % 2 === 1 && fields[i - 1]?.toLowerCase() === name);
}

/** Returns the value of a field that occurs exactly once. @param name in lower case */
export function onlyValue(fields: readonly string[], name: string): string | undefined {
  const [value, ...more] = fieldValues(fields, name);
  return more.length === 0 ? value : undefined;
}

/** Returns two flat lists of fields as one. Most are empty, and then the other is returned. */
export function joinFields(first: readonly string[], second: readonly string[]): readonly string[] {
  if (first.length === 0) return second;
  return second.length === 0 ? first : [...first, ...second];
}

/** Joins two lines of one field (RFC 9110 5.3). An empty value adds nothing. */
export function joinValues(first: string, second: string, separator: ', ' | '; '): string {
  if (first === '') return second;
  return second === '' ? first : first + separator + second;
}

const VARY = 'vary';

/** Adds a field name to `Vary` in place, extending an existing list (RFC 9110 12.5.5). */
export function addVary(fields: string[], name: string): void {
  let last = -1;
  for (let i = 0; i < fields.length; i += 2) {
    const own = fields[i] as string;
    if (own.length !== VARY.length || own.toLowerCase() !== VARY) continue;
    last = i + 1;
    const list = fields[last] as string;
    if (hasItem(list, '*') || hasItem(list, name.toLowerCase())) return;
  }
  if (last < 0) fields.push('Vary', name);
  else fields[last] = joinValues(fields[last] as string, name, ', ');
}

/** @param item in lower case */
export function hasItem(list: string, item: string): boolean {
  for (let start = 0, end; start < list.length; start = end + 1) {
    const comma = list.indexOf(',', start);
    end = comma < 0 ? list.length : comma;
    if (end - start >= item.length && list.slice(start, end).trim().toLowerCase() === item) return true;
  }
  return false;
}

/** @param name in lower case */
export function firstField(fields: readonly string[], name: string): string | undefined {
  for (let i = 0; i < fields.length; i += 2) {
    const own = fields[i] as string;
    if (own.length === name.length && own.toLowerCase() === name) return fields[i + 1];
  }
  return undefined;
}

/** WebViews put their application's name into `X-Requested-With`, so only the value of scripts counts. */
export function isByScript(fields: readonly string[]): boolean {
  return firstField(fields, 'x-requested-with')?.toLowerCase() === 'xmlhttprequest';
}

/** Programs accept anything, and no browser names JSON when it opens a page. */
export function acceptsHtml(fields: readonly string[]): boolean {
  const accept = fieldValues(fields, 'accept').join(',');
  const types = accept.split(',').flatMap((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    return parameters.some((each) => /^q=0(?:\.0*)?$/.test(each)) ? [] : [type];
  });
  return types.includes('text/html') && !types.includes('application/json');
}
