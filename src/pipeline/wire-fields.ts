import { LINE_BYTES } from '../http/fields.js';
import type { Fault } from '../http1/faults.js';
import { fieldFault } from '../http1/field-fault.js';
import { Framing } from '../http1/framing.js';

/**
 * Returns fields as the parser returns those of a client that sends them as UTF-8, with a `Host` if
 * they have none.
 */
export function wireFields(fields: readonly string[]): string[] {
  return [...(hasHost(fields) ? [] : ['Host', 'localhost']), ...fields.map(asWireText)];
}

/** Returns why the parser would refuse the fields; undefined if it would not. */
export function parserFault(fields: readonly string[], maxSize: number): Fault | undefined {
  const framing = new Framing(true);
  let size = 0;
  for (let i = 0; i < fields.length; i += 2) {
    const [name, value] = fields.slice(i, i + 2).map((text) => Buffer.from(text, 'latin1')) as [Buffer, Buffer];
    const fault = fieldFault(framing, name, value);
    if (fault !== undefined) return fault;
    size += name.length + value.length + LINE_BYTES;
  }
  return size > maxSize ? 'head_too_large' : undefined;
} // prettier-ignore

/**
 * A field value as the parser returns it: trimmed, with each UTF-8 byte as one Latin-1 character.
 */
function asWireText(text: string): string {
  return Buffer.from(text.replace(/^[ \t]+|[ \t]+$/g, ''), 'utf8').toString('latin1');
}

function hasHost(fields: readonly string[]): boolean {
  return fields.some((text, i) => i % 2 === 0 && text.toLowerCase() === 'host');
}
