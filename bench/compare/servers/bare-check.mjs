// What the least possible proxy with a check costs in Node.js: it reads and writes each side once,
// looks up the digest of the key in LMDB, adds a field, and logs a line. It parses nothing, so it
// works for these requests only. Started with its port, that of the upstream, the file of keys and
// a folder.
import { write } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { open } from 'lmdb';
import { built } from '../../lib/built.mjs';
import { readKeys } from './keys.mjs';

const { digestOf } = await built('domain/secret');
const { SocketReader } = await built('net/socket');
const { setOnread } = await built('listeners/accepted-socket');
const [port, upstreamPort, keysFile, folder] = process.argv.slice(2);
const FIELD = 'Service-Key: ';
const REFUSAL = 'HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n';
/** As long as a line of Latchkey's access log. */
const LINE = `${JSON.stringify({ msg: 'x'.repeat(430) })}\n`;
const GATHER_MS = 10;
const STDOUT = 1;

const store = open({ path: join(folder, 'bare-check'), overlappingSync: false });
store.transactionSync(() => {
  for (const [key, owner] of readKeys(keysFile)) store.putSync(digestOf(String(key)), owner);
});
let lines = 0;
setInterval(() => {
  if (lines > 0) write(STDOUT, LINE.repeat(lines), () => undefined);
  lines = 0;
}, GATHER_MS);

/**
 * Returns the head for the upstream; undefined if the key is unknown.
 *
 * @param {string} head
 */
function outbound(head) {
  const start = head.indexOf(FIELD);
  const end = head.indexOf('\r\n', start);
  store.resetReadTxn();
  const owner = store.get(digestOf(head.slice(start + FIELD.length, end)));
  return owner && `${head.slice(0, start)}X-Auth-User-Id: ${owner}${head.slice(end)}`;
}

createServer({ noDelay: true }, (client) => {
  const [fromClient, fromUpstream] = [new SocketReader(), new SocketReader()];
  setOnread(client, fromClient.onread);
  const to = { port: Number(upstreamPort), host: '127.0.0.1', noDelay: true };
  const upstream = connect({ ...to, onread: fromUpstream.onread });
  fromClient.onBytes = (bytes) => {
    const head = outbound(bytes.toString('latin1'));
    if (head === undefined) client.write(REFUSAL, 'latin1');
    else upstream.write(head, 'latin1');
  };
  fromUpstream.onBytes = (bytes) => {
    client.write(bytes.toString('latin1'), 'latin1');
    lines += 1;
  };
  const destroy = () => {
    client.destroy();
    upstream.destroy();
  };
  for (const socket of [client, upstream]) socket.on('error', destroy).on('close', destroy);
}).listen(Number(port), '127.0.0.1', 4096);
