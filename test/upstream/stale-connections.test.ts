import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { send, serveTcp } from '../helpers/http.js';
import { until } from '../helpers/until.js';

const IDLE = 5;

t.test('a retry uses a new connection, when idle ones have all closed just as they are used', async (t) => {
  let opened = 0;
  /** Responses of the first round, held back so that each of its requests needs a connection. */
  const held: (() => void)[] = [];
  const { url: upstream } = await serveTcp(t, (socket) => {
    opened += 1;
    let requests = 0;
    socket.on('data', () => {
      requests += 1;
      const answer = () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      if (requests > 1) socket.destroy();
      else if (held.length === IDLE) answer();
      else if (held.push(answer) === IDLE) for (const each of held) each();
    });
  });
  const { url } = await startFixture(t, { upstream, default_route: { auth: 'none' } });
  const first = await Promise.all(Array.from({ length: IDLE }, () => send(url, '/x')));
  t.same(new Set(first.map(({ status }) => status)), new Set([200]));
  await until(() => opened === IDLE, 'the idle connections');
  for (let i = 1; i <= 2; i++) {
    t.equal((await send(url, '/x')).status, 200, 'the retry succeeds');
    t.equal(opened, IDLE + i, 'on a new connection');
  }
  t.equal((await send(url, '/x', { method: 'POST' })).status, 502, 'what may have arrived is not sent again');
  t.equal(opened, IDLE + 2);
}); // prettier-ignore

t.test('a retry to another address uses its idle connections', async (t) => {
  let [broken, opened] = [0, 0];
  const bad = await serveTcp(t, (socket) => {
    socket.on('data', () => {
      broken += 1;
      socket.destroy();
    });
  });
  const good = await serveTcp(t, (socket) => {
    opened += 1;
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'));
  });
  const { url } = await startFixture(t, {
    upstream: undefined,
    upstreams: { api: { urls: [bad.url, good.url] } },
    default_route: { auth: 'none', upstream: 'api' },
  });
  for (let i = 0; i < 6; i++) t.equal((await send(url, '/x')).status, 200);
  t.ok(broken > 1, `${broken} were retried`);
  t.equal(opened, 1);
});
