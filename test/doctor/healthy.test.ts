import { createServer } from 'node:http';
import { createServer as createTcp } from 'node:net';
import t from 'tap';
import { CHECKS } from '../../src/doctor/examine.js';
import { diagnose, found, KEY, listenOn, startFaulty } from './deployments.js';

t.test('finds nothing in a correct deployment, with a token and an API that echoes requests', async (t) => {
  const agents = new Set<string>();
  const methods = new Set<string>();
  const url = await startFaulty(t, {
    before: (req) => {
      agents.add(req.headers['user-agent'] ?? '');
      methods.add(req.method ?? '');
      return false;
    },
    api: (req, res) => res.end(JSON.stringify({ path: req.url })),
  });
  const report = await diagnose(url, { key: KEY, upstream: new URL('http://127.0.0.1:1') });
  t.same(report.findings, []);
  t.same(found(report), []);
  t.same(report.checks.map(({ check }) => check), CHECKS.map(({ name }) => name));
  t.ok([...agents].every((agent) => agent.endsWith('latchkey-doctor/test')), 'every request names doctor');
  t.same([...methods].toSorted(), ['GET', 'OPTIONS']);
  t.notMatch(JSON.stringify(report), KEY);
}); // prettier-ignore

t.test('fails if the deployment does not answer', async (t) => {
  await t.rejects(diagnose('http://127.0.0.1:1'), /does not respond: connection refused/);
  const silent = createTcp((socket) => socket.end());
  const url = await new Promise<string>((done) =>
    silent.listen(0, '127.0.0.1', () =>
      done(`http://127.0.0.1:${(silent.address() as { port: number }).port}`),
    ),
  );
  t.teardown(() => silent.close());
  await t.rejects(diagnose(url), /does not respond: closed/);
});

t.test('malformed bytes, endless bodies and lost connections do not stop a run', async (t) => {
  let count = 0;
  const server = createServer((_req, res) => {
    count += 1;
    if (count % 3 === 1) res.writeHead(401).end();
    else if (count % 3 === 2) res.socket?.end('no HTTP\r\n\r\n');
    else res.socket?.destroy();
  });
  const report = await diagnose(await listenOn(t, server));
  t.same(report.checks.length, CHECKS.length);
});

t.test('at its request limit a run reports checks as unknown', async (t) => {
  const url = await startFaulty(t, { lets: (req) => req.url?.startsWith('//') ?? false });
  const report = await diagnose(url, { maxRequests: 60 });
  t.equal(report.requests, 60);
  t.same(report.findings, []);
  t.match(report.checks.find(({ check }) => check === 'paths'), { result: 'unknown', summary: /made 60 requests/ });
  t.equal(report.result, 'unknown');
}); // prettier-ignore
