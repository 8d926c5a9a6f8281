// What Node streams alone cost a proxy: copies bytes in both directions, unparsed, with one upstream
// connection per client. Started with its port and that of the upstream, and for TLS with the files
// of a certificate and its key.
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';

const [port, upstreamPort, cert, key] = process.argv.slice(2);

/** @param {import('node:net').Socket} client */
function pipe(client) {
  client.setNoDelay();
  const upstream = connect({ port: Number(upstreamPort), host: '127.0.0.1', noDelay: true });
  const destroy = () => {
    client.destroy();
    upstream.destroy();
  };
  for (const [from, to] of [[client, upstream], [upstream, client]]) {
    from.on('data', (chunk) => to.write(chunk) || from.pause());
    to.on('drain', () => from.resume());
    from.on('error', destroy).on('close', destroy);
  }
} // prettier-ignore

const server =
  cert === undefined
    ? createServer(pipe)
    : createTlsServer({ cert: readFileSync(cert), key: readFileSync(key) }, pipe);
server.listen(Number(port), '127.0.0.1', 4096);
