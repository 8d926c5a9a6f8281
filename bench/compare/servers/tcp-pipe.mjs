// What Node streams alone cost a proxy: copies bytes in both directions, unparsed, with one upstream
// connection per client. Started with its port and that of the upstream.
import { connect, createServer } from 'node:net';

const [port, upstreamPort] = process.argv.slice(2).map(Number);

createServer({ noDelay: true }, (client) => {
  const upstream = connect({ port: upstreamPort, host: '127.0.0.1', noDelay: true });
  const destroy = () => {
    client.destroy();
    upstream.destroy();
  };
  for (const [from, to] of [[client, upstream], [upstream, client]]) {
    from.on('data', (chunk) => to.write(chunk) || from.pause());
    to.on('drain', () => from.resume());
    from.on('error', destroy).on('close', destroy);
  }
}).listen(port, '127.0.0.1', 4096); // prettier-ignore
