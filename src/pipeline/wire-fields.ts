import { LINE_BYTES } from '../http/fields.js';
import type { Fault } from '../http1/events.js';
import { fieldFault, Framing } from '../http1/framing.js';
import { type HeadLimits, parserLimits } from '../http/read-head.js';

/** Returns fields as the parser returns those of a client that sends them as UTF-8, with a `Host`. */
export function wireFields(fields: readonly string[]): string[] {
  return [...(hasHost(fields) ? [] : ['Host', 'localhost']), ...fields.map(asWireText)];
}

/** Returns why the parser would refuse a target or fields; undefined if it would not. */
export function parserFault(target: string, fields: readonly string[], limits: HeadLimits): Fault | undefined {
  const { target_size, head_fields, head_size } = parserLimits(limits);
  if (target.length > target_size) return 'target_too_long';
  const framing = new Framing(true);
  let size = 0;
  for (let i = 0; i < fields.length; i += 2) {
    if (i / 2 >= head_fields) return 'too_many_fields';
    const [name, value] = fields.slice(i, i + 2).map((text) => Buffer.from(text, 'latin1')) as [Buffer, Buffer];
    const fault = fieldFault(framing, name, value);
    if (fault !== undefined) return fault;
    size += name.length + value.length + LINE_BYTES;
    if (size > head_size) return 'head_too_large';
  }
  return undefined;
} // prettier-ignore

/** As the parser returns it: trimmed, with each UTF-8 byte as one Latin-1 character. */
function asWireText(text: string): string {
  return Buffer.from(text.replace(/^[ \t]+|[ \t]+$/g, ''), 'utf8').toString('latin1');
}

function hasHost(fields: readonly string[]): boolean {
  return fields.some((text, i) => i % 2 === 0 && text.toLowerCase() === 'host');
}
