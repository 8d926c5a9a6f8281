import { validateHeaderName, validateHeaderValue } from 'node:http';
import { CONNECTION_SPECIFIC } from './http2-fields.js';

/** Fields as `node:http2` takes them. */
export type Http2Fields = Record<string, string | string[]>;

/** Names in lower case, of which each was checked. Upstreams and clients choose them, so there is a bound. */
const checkedNames = new Map<string, string>();
const MAX_CHECKED = 1_000;

/**
 * Fields as node takes them for HTTP/2. Lines of one name become one list (RFC 9110 5.3), because node refuses several lines
 * of some names; Set-Cookie is no list, and several Cookie fields are one (RFC 9113 8.2.3).
 *
 * Everything is checked here: trailers are given to node in an event, where an error would end the process.
 *
 * @throws TypeError for a name or value that can't be sent
 */
export function http2Fields(flat: readonly string[]): Http2Fields {
  const byName = Object.create(null) as Http2Fields;
  for (let i = 0; i < flat.length; i += 2) {
    const sent = flat[i] as string;
    const name = checkedNames.get(sent) ?? checkName(sent);
    const value = flat[i + 1] as string;
    validateHeaderValue(name, value);
    const known = byName[name];
    if (name === 'set-cookie') byName[name] = [known ?? [], value].flat();
    else if (known === undefined) byName[name] = value;
    else byName[name] = `${known as string}${name === 'cookie' ? '; ' : ', '}${value}`;
  }
  return byName;
}

/** @throws TypeError */
function checkName(sent: string): string {
  const name = sent.toLowerCase();
  validateHeaderName(name);
  if (CONNECTION_SPECIFIC.has(name)) throw new TypeError(`the field ${name} is not part of HTTP/2`);
  if (checkedNames.size < MAX_CHECKED) checkedNames.set(sent, name);
  return name;
}
