import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';

/**
 * Opens a connection on which a test writes exact bytes, each write at once, and keeps the bytes
 * received. For the options, see `raw-client.d.mts`.
 */
export function openRaw(to, { bytes, reads = true, onData, halfOpen = false, localAddress, tls } = {}) {
  const { protocol, hostname, port } = typeof to === 'number' ? { hostname: '127.0.0.1', port: to } : new URL(to);
  const address = { host: hostname, port: Number(port), noDelay: true, allowHalfOpen: halfOpen, localAddress };
  const socket =
    protocol === 'https:'
      ? connectTls({ ...address, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'], ...tls })
      : connect(address);
  let chunks = [];
  const client = {
    socket,
    ended: false,
    error: undefined,
    closed: new Promise((done) => socket.once('close', done)),
    write: (more) => socket.write(typeof more === 'string' ? Buffer.from(more, 'latin1') : more),
    bytes: () => {
      if (chunks.length !== 1) chunks = [Buffer.concat(chunks)];
      return chunks[0];
    },
    text: () => client.bytes().toString('latin1'),
  };
  const end = () => (client.ended = true);
  socket
    .on('data', onData ?? ((chunk) => chunks.push(chunk)))
    .on('error', (error) => (client.error ??= error))
    .on('error', end)
    .on('end', end)
    .on('close', end);
  if (!reads) socket.pause();
  if (bytes !== undefined) client.write(bytes);
  return client;
} // prettier-ignore

/** Returns whether something listens on a loopback port. */
export async function accepts(port) {
  const { socket } = openRaw(port);
  const answer = await new Promise((done) => socket.once('connect', () => done(true)).once('error', () => done(false)));
  socket.destroy();
  return answer;
} // prettier-ignore
