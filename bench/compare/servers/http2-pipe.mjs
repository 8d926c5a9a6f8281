// What node:http2 and a request to an upstream cost a proxy: sends one fixed request for each stream,
// and takes whatever one read returns for the whole response. Started with its port, that of the
// upstream, and the files of a certificate and its key.
import { readFileSync } from 'node:fs';
import { createSecureServer } from 'node:http2';
import { connect } from 'node:net';

const [port, upstreamPort, cert, key] = process.argv.slice(2);
const REQUEST =
  'GET /api/items/42 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n';
const HEAD_END = '\r\n\r\n';

/** @typedef {{ socket: import('node:net').Socket, stream?: import('node:http2').ServerHttp2Stream }} Upstream */

/** @type {Upstream[]} */
const free = [];

/** @returns {Upstream} */
function connectUpstream() {
  /** @type {Upstream} */
  const upstream = { socket: connect({ port: Number(upstreamPort), host: '127.0.0.1', noDelay: true }) };
  upstream.socket.on('data', (bytes) => {
    const { stream } = upstream;
    free.push(upstream);
    if (stream === undefined || stream.destroyed) return;
    const body = bytes.subarray(bytes.indexOf(HEAD_END) + HEAD_END.length);
    stream.respond({ ':status': 200, 'content-type': 'application/json', 'content-length': body.length });
    stream.end(body);
  });
  return upstream;
}

const server = createSecureServer({ cert: readFileSync(cert), key: readFileSync(key) });
server.on('stream', (stream) => {
  stream.on('error', () => undefined);
  const upstream = free.pop() ?? connectUpstream();
  upstream.stream = stream;
  upstream.socket.write(REQUEST, 'latin1');
});
server.listen(Number(port), '127.0.0.1', 4096);
