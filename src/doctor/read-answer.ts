import { type Field, MAX_BODY } from './message.js';

const HEAD_END = '\r\n\r\n';
const MAX_HEAD = 64 * 1024;

/** A message of which enough came to judge it. */
interface Message {
  readonly status: number;
  readonly fields: readonly Field[];
  readonly body: string;
  readonly isKept: boolean;
}

/**
 * Reads the answer in what came so far; undefined while more is needed.
 *
 * It takes what the engine of the server refuses, because it is about servers that are wrong.
 *
 * @param hasEnded whether nothing more can come
 */
export function readAnswer(received: Buffer, hasEnded: boolean): Message | undefined {
  const text = received.toString('latin1');
  const end = text.indexOf(HEAD_END);
  if (end < 0) return hasEnded || text.length > MAX_HEAD ? brokenHead(text) : undefined;
  const [first = '', ...lines] = text.slice(0, end).split('\r\n');
  const status = statusOf(first);
  const rest = received.subarray(end + HEAD_END.length);
  if (status >= 100 && status < 200 && status !== 101) return readAnswer(rest, hasEnded);
  const fields = lines.map(fieldOf);
  const framed = bodyOf(status, fields, rest);
  if (!framed.isWhole && !hasEnded && framed.body.length < MAX_BODY) return undefined;
  const isKept = framed.isWhole && !hasEnded && !has(fields, 'connection', 'close') && !first.startsWith('HTTP/1.0');
  return { status, fields, body: framed.body.subarray(0, MAX_BODY).toString('utf8'), isKept };
} // prettier-ignore

/** Something that is no answer of HTTP counts as one without a meaning; nothing counts as none. */
function brokenHead(text: string): Message | undefined {
  if (!text.startsWith('HTTP/')) return undefined;
  return { status: statusOf(text), fields: [], body: '', isKept: false };
}

function statusOf(line: string): number {
  return Number(/^HTTP\/1\.[01] (\d{3})/.exec(line)?.[1] ?? 0);
}

function fieldOf(line: string): Field {
  const colon = line.indexOf(':');
  return [line.slice(0, Math.max(colon, 0)).trim(), line.slice(colon + 1).trim()];
}

function has(fields: readonly Field[], name: string, value: string): boolean {
  return fields.some(([field, text]) => field.toLowerCase() === name && text.toLowerCase().includes(value));
}

function bodyOf(status: number, fields: readonly Field[], rest: Buffer): { body: Buffer; isWhole: boolean } {
  if (status === 101 || status === 204 || status === 304) return { body: Buffer.alloc(0), isWhole: true };
  if (has(fields, 'transfer-encoding', 'chunked')) return dechunk(rest);
  const length = fields.find(([name]) => name.toLowerCase() === 'content-length')?.[1];
  if (length === undefined) return { body: rest, isWhole: false };
  return { body: rest.subarray(0, Number(length)), isWhole: rest.length >= Number(length) };
}

function dechunk(rest: Buffer): { body: Buffer; isWhole: boolean } {
  const parts: Buffer[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = rest.indexOf('\r\n', at);
    const size = lineEnd < 0 ? Number.NaN : Number.parseInt(rest.toString('latin1', at, lineEnd), 16);
    if (Number.isNaN(size)) return { body: Buffer.concat(parts), isWhole: false };
    if (size === 0) return { body: Buffer.concat(parts), isWhole: true };
    parts.push(rest.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
}
