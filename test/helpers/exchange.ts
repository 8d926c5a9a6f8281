import { jsonOf } from './http.js';
import { openRaw } from './raw-client.mjs';
import { rememberSecretsOf } from './secrets.js';

/** A response as received on the wire. */
export interface WireReply {
  readonly status: number;
  readonly reason: string;
  /** Field names in lower case with their values, in order. */
  readonly fields: readonly (readonly [name: string, value: string])[];
  readonly body: string;
  /** undefined if the body is not JSON. */
  readonly json: any; // oxlint-disable-line typescript/no-explicit-any -- tests look into answers of any shape
  /** Returns every value of a field. */
  readonly all: (name: string) => string[];
}

const WAIT_MS = 15_000;

/**
 * Sends exact bytes on a connection of its own and reads the final response, framed by RFC 9112
 * 6.3. Interim responses are skipped.
 *
 * @param isHead whether the response has no body, whatever its head says
 * @throws Error if the connection ends or stays quiet before the response is complete
 */
export function exchange(base: string, bytes: string, isHead = false): Promise<WireReply> {
  return new Promise((resolve, reject) => {
    const { socket, text } = openRaw(base, { bytes });
    const finish = (error?: Error, reply?: WireReply) => {
      clearTimeout(timer);
      socket.destroy();
      if (reply !== undefined) resolve(reply);
      else reject(error ?? new Error(`no whole answer: ${JSON.stringify(text())}`));
    };
    const timer = setTimeout(finish, WAIT_MS);
    socket.on('data', () => {
      const reply = readReply(text(), isHead, false);
      if (reply !== undefined) finish(undefined, reply);
    });
    socket.on('end', () => finish(undefined, readReply(text(), isHead, true)));
    socket.on('error', (error) => finish(error));
  });
}

function readReply(text: string, isHead: boolean, ended: boolean): WireReply | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const [line = '', ...lines] = text.slice(0, end).split('\r\n');
  const [, status = '', reason = ''] = /^HTTP\/1\.1 (\d{3}) (.*)$/.exec(line) ?? [];
  const rest = text.slice(end + 4);
  if (status.startsWith('1')) return readReply(rest, isHead, ended);
  const fields = lines.map((each): [string, string] => {
    const colon = each.indexOf(':');
    return [each.slice(0, colon).toLowerCase(), each.slice(colon + 1).trim()];
  });
  const all = (name: string) => fields.filter(([each]) => each === name).map(([, value]) => value);
  const body = isHead || status === '204' || status === '304' ? rest : bodyOf(rest, all, ended);
  if (body === undefined) return undefined;
  const json = jsonOf(Buffer.from(body, 'latin1').toString());
  rememberSecretsOf({ 'set-cookie': all('set-cookie') }, json);
  return { status: Number(status), reason, fields, body, json, all };
}

function bodyOf(rest: string, all: (name: string) => string[], ended: boolean): string | undefined {
  const [length] = all('content-length');
  if (length !== undefined) return rest.length < Number(length) ? undefined : rest;
  if (all('transfer-encoding')[0] !== 'chunked') return ended ? rest : undefined;
  let body = '';
  for (let at = 0; ;) {
    const line = rest.indexOf('\r\n', at);
    const size = line < 0 ? NaN : parseInt(rest.slice(at, line), 16);
    if (Number.isNaN(size) || rest.length < line + 2 + size + 2) return undefined;
    if (size === 0) return body;
    body += rest.slice(line + 2, line + 2 + size);
    at = line + 2 + size + 2;
  }
}
