import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { run } from '../helpers/latchkey.js';

t.test('latchkey doctor', async (t) => {
  const { url, token, server, upstream } = await startFixture(t);
  const secret = await token('superuser');

  await t.test('finds nothing wrong with Latchkey in front of an API that echoes its requests', async (t) => {
    const args = ['doctor', '--url', url, '--path', '/service/S1', '--json'];
    const { code, stdout, stderr } = await run(args, { env: { LATCHKEY_DOCTOR_KEY: secret } });
    const report = JSON.parse(stdout);
    t.same(report.findings, []);
    t.same([code, stderr], [0, '']);
    t.match(report, { url, result: 'unknown', requests: Number, duration_ms: Number, notes: [] });
    t.ok(report.requests < 3_000, `${report.requests} requests`);
  });

  await t.test('reports what is open and how to fix it', async (t) => {
    const args = ['doctor', '--url', url, '--upstream', upstream.url, '--admin', server.admin];
    const { code, stdout } = await run(args);
    t.equal(code, 1);
    t.match(stdout, /^SERIOUS +upstream +http.* serves requests that bypass Latchkey, which is loopback: only programs on this machine reach it/m);
    t.match(stdout, /^SERIOUS: admin-port: [^]*\n {2}Remedy: Bind admin.host/m);
    t.match(stdout, /^unknown +decision-port +it does not respond at port 9902 or 9903/m);
    t.match(stdout, /2 serious, 0 warnings, 3 unknown; \d+ requests/);
  });

  await t.test('distinguishes wrong usage from failure', async (t) => {
    t.match(await run(['doctor']), { code: 2, stderr: /--url/ });
    t.match(await run(['doctor', '--url', `${url}/path`]), { code: 2, stderr: /without a path/ });
    t.match(await run(['doctor', '--url', url, '--path', 'x']), { code: 2, stderr: /Expected a path/ });
    t.match(await run(['doctor', '--url', 'http://127.0.0.1:1']), { code: 1, stderr: /does not respond: connection refused \(ECONNREFUSED\)/ });
    t.match(await run(['doctor', '--url', url, '--key-file', '/none']), { code: 1, stderr: /cannot be read/ });
  });
}); // prettier-ignore
