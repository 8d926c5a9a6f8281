import { isSessionCookie } from './outbound.js';

/** Fields of an answer that concern one connection only (RFC 9110 7.6.1). Node frames the answer itself. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Fields that mean something only in a head (RFC 9110 6.5.1): framing, routing, credentials, how to handle the content. */
const NOT_IN_TRAILERS: ReadonlySet<string> = new Set([
  'age',
  'cache-control',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'date',
  'expires',
  'host',
  'location',
  'retry-after',
  'set-cookie',
  'vary',
  'warning',
  'www-authenticate',
]);

/** The upstream's answer can't be passed on as one well-formed answer. */
export class HostileAnswer extends Error {
  readonly code = 'HOSTILE_ANSWER';
}

/**
 * Builds the fields of the answer to the client from those of the upstream.
 *
 * @param raw names and values as received
 * @param added fields of Latchkey's own; the upstream's of the same names are dropped
 * @param sessionCookie an upstream never sets or clears the session cookie
 * @throws HostileAnswer for framing that two readers could take differently
 */
export function inboundFields(
  raw: readonly (Buffer | string)[],
  added: readonly string[],
  sessionCookie: string,
): string[] {
  const names: string[] = [];
  let connection: string | undefined;
  let framings = 0;
  for (let i = 0; i < raw.length; i += 2) {
    const name = text(raw[i]).toLowerCase();
    names.push(name);
    if (name === 'connection') connection = `${connection ?? ''},${text(raw[i + 1])}`;
    else if (name === 'content-length') framings += 1;
    else if (name === 'transfer-encoding') {
      framings += 1;
      if (text(raw[i + 1]).toLowerCase() !== 'chunked') throw new HostileAnswer('an unknown transfer coding');
    }
  }
  if (framings > 1) throw new HostileAnswer('more than one length');
  const listed = connection === undefined ? '' : connection.toLowerCase();
  const fields: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = names[i / 2] as string;
    const value = text(raw[i + 1]);
    if (HOP_BY_HOP.has(name) || hasName(added, name) || (listed !== '' && isListed(listed, name))) continue;
    if (name === 'set-cookie' && isSessionCookie(value.split(';', 1)[0] ?? '', sessionCookie)) continue;
    fields.push(text(raw[i]), value);
  }
  for (let i = 0; i < added.length; i++) fields.push(added[i] as string);
  return fields;
}

/** Builds the trailers of the answer to the client: what may stand there, and nothing of Latchkey's own names. */
export function inboundTrailers(
  raw: readonly (Buffer | string)[],
  added: readonly string[],
): [string, string][] {
  const trailers: [string, string][] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = text(raw[i]).toLowerCase();
    if (HOP_BY_HOP.has(name) || NOT_IN_TRAILERS.has(name) || hasName(added, name)) continue;
    trailers.push([text(raw[i]), text(raw[i + 1])]);
  }
  return trailers;
}

function text(raw: Buffer | string | undefined): string {
  return raw === undefined ? '' : typeof raw === 'string' ? raw : raw.toString('latin1');
}

function hasName(fields: readonly string[], name: string): boolean {
  for (let i = 0; i < fields.length; i += 2) if (fields[i]?.toLowerCase() === name) return true;
  return false;
}

/** Framing is never taken away by a Connection field. */
function isListed(connection: string, name: string): boolean {
  return name !== 'content-length' && connection.split(',').some((option) => option.trim() === name);
}
