import { consistsOf, TEXT, TOKEN } from './bytes.js';
import type { Fault } from './faults.js';
import { meaningOfText, PLAIN } from './field-names.js';
import type { Framing } from './framing.js';

/**
 * Returns why the parser would refuse a field that did not arrive as a line of HTTP/1.1; undefined
 * if it would not.
 *
 * @param framing what the previous fields of the same head say
 * @param value without the whitespace around it
 */
export function fieldFault(framing: Framing, name: Buffer, value: Buffer): Fault | undefined {
  if (name.length === 0 || !consistsOf(TOKEN, name)) return 'field_name';
  if (!consistsOf(TEXT, value)) return 'field_value';
  const meaning = meaningOfText(name.toString('latin1'));
  return meaning === PLAIN ? undefined : framing.note(meaning, value, 0, value.length, value.length);
}
