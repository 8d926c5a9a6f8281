import t from 'tap';
import { WebSocketServer } from 'ws';
import { selfSigned } from '../helpers/certificates.js';
import { DECIDES, entrancesOf } from '../helpers/entrances.js';
import { startFixture } from '../helpers/fixture.js';
import { openHttp2 } from '../helpers/http2.js';
import { SILENT_PROVIDER } from '../helpers/identity-provider.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

/* Latchkey's own cookies reach no upstream at any entrance; all other cookies do. */

const LOGIN = ['latchkey-login-a1', '__Host-latchkey-login-b-2', '__Secure-latchkey-login-c_3'];

for (const forward_credentials of [false, true])
  t.test(`with forward_credentials ${forward_credentials}`, async (t) => {
  const { cert, key } = selfSigned(temporaryFolder(t), 'latchkey');
  const { server, upstream, url, login, token } = await startFixture(t, {
    listen: { host: '127.0.0.1', port: 0, tls: { cert, key } },
    decision: { host: '127.0.0.1', port: 0, grpc: { port: 0 } },
    identity: { forward_credentials },
    routes: [{ path: '/open', auth: 'none' }],
    login: { oidc: [SILENT_PROVIDER], public_url: 'https://api.example' },
  });
  const session = await login('superuser');
  const secret = await token('superuser');
  const handshakes: string[][] = [];
  new WebSocketServer({ server: upstream.server }).on('connection', (socket, req) => {
    handshakes.push(req.rawHeaders);
    socket.close();
  });
  const entrances = entrancesOf(server, await openHttp2(t, url));

  /** The cookies that reach the upstream, or that a proxy is told to send. */
  async function forwarded(name: keyof typeof entrances, path: string, headers: Record<string, string>) {
    const { received } = upstream;
    const seen = received.length + handshakes.length;
    const reply = await entrances[name]({ method: 'GET', path, headers });
    if (DECIDES.has(name)) return reply.headers.cookie ?? '';
    await until(() => received.length + handshakes.length > seen, 'it reaches the upstream');
    const fields = (name === 'WebSocket' ? handshakes : received.map(({ rawHeaders }) => rawHeaders)).at(-1) ?? [];
    return fields.filter((_, i) => fields[i - 1]?.toLowerCase() === 'cookie' && i % 2 === 1).join('; ');
  } // prettier-ignore

    for (const name of Object.keys(entrances) as (keyof typeof entrances)[]) {
      for (const cookie of LOGIN) {
        const own = `${cookie}=sealed`;
        for (const Cookie of [own, `a=1; ${own}; b=2`, `${own};${own}`, `x${own}; a=1;${own} ; latchkey-login2=x`]) {
          const others = Cookie.split(';').map((pair) => pair.trim()).filter((pair) => pair !== own).join('; ');
          const normal = (text: string) => text.split(';').map((pair) => pair.trim()).filter(Boolean).join('; ');
          t.equal(normal(await forwarded(name, '/open', { Cookie })), others, `${name}: ${Cookie}`);
          t.equal(normal(await forwarded(name, '/x', { Cookie, 'Service-Key': secret })), others, `${name} with a token: ${Cookie}`);
        }
        const both = pairsOf(await forwarded(name, '/x', { Cookie: `${session}; ${own}; a=1` }));
        t.same(both, forward_credentials ? ['a=1', session] : ['a=1'], `${name}: together with the session`);
      }
    }
  }); // prettier-ignore

function pairsOf(cookies: string): string[] {
  const pairs = cookies.split(';').map((pair) => pair.trim());
  return pairs.filter(Boolean).toSorted();
}
