// The minimal server: a fixed response, without parsing the request. Started with: port, protocol
// (tcp, tls or http2), and for the latter two the files of a certificate and its key.
import { readFileSync } from 'node:fs';
import { createSecureServer } from 'node:http2';
import { createServer } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';

const [port, protocol, cert, key] = process.argv.slice(2);
const BODY = JSON.stringify({ data: 'x'.repeat(89) });
const ANSWER = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
const files = () => ({ cert: readFileSync(cert), key: readFileSync(key) });

/** @param {import('node:net').Socket} socket that carries one request at a time */
function answer(socket) {
  socket.setNoDelay();
  socket.on('data', () => socket.write(ANSWER, 'latin1')).on('error', () => socket.destroy());
}

function http2Server() {
  const server = createSecureServer(files());
  server.on('stream', (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/json', 'content-length': BODY.length });
    stream.end(BODY);
  });
  return server;
}

const SERVERS = {
  tcp: () => createServer(answer),
  tls: () => createTlsServer(files(), answer),
  http2: http2Server,
};
SERVERS[/** @type {keyof typeof SERVERS} */ (protocol)]().listen(Number(port), '127.0.0.1', 4096);
