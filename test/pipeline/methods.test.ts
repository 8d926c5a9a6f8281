import t from 'tap';
import { METHODS } from '../../src/domain/methods.js';
import { checkBytes } from '../helpers/grpc.js';
import type { Sent } from '../helpers/http.js';
import { startInProcess } from '../helpers/in-process.js';

/** https://www.iana.org/assignments/http-methods without `*`, PRI, CONNECT and TRACE. */
const REGISTRY =
  `ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY DELETE GET HEAD LABEL LINK LOCK MERGE MKACTIVITY
  MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PROPFIND PROPPATCH PUT QUERY REBIND
  REPORT SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL`.split(/\s+/);
const READS = ['GET', 'HEAD', 'OPTIONS', 'PROPFIND', 'REPORT', 'SEARCH', 'QUERY'];

t.test('every registered method is authorized at every entrance, and no other', async (t) => {
  t.same(METHODS.filter((each) => each !== 'PURGE').toSorted(), REGISTRY.toSorted());
  const { request, requestByHttp2, decide, decideByGrpc, token } = await startInProcess(t, { routes: [], decision: { port: 0 } });
  const headers = { 'Service-Key': await token('superuser') };
  const rows: [method: string, status: number, outcome: string, action: string | undefined][] = [
    ...METHODS.map((each): (typeof rows)[number] => [each, 200, 'forwarded', READS.includes(each) ? 'api:read' : 'api:write']),
    ...['TRACE', 'CONNECT'].map((each): (typeof rows)[number] => [each, 405, 'method_not_allowed', undefined]),
    ...['BREW', 'get', 'GET0', 'PRI', '*'].map((each): (typeof rows)[number] => [each, 501, 'method_unknown', undefined]),
  ];
  for (const [method, status, outcome, action] of rows) {
    const entry = { method, path: '/a', outcome, ...(action !== undefined && { action }) };
    const first = await request('/a?x=1', { method, headers });
    t.equal(first.status, status, method);
    t.match(first.log.at(-1), entry, method);
    if (method !== 'CONNECT') {
      const second = await requestByHttp2('/a?x=1', { method, headers });
      t.equal(second.status, status, `${method} over HTTP/2`);
      t.match(second.log.at(-1), entry);
    }
    const decided = { ...entry, outcome: outcome === 'forwarded' ? 'allowed' : outcome };
    const asked = await decide('/forward-auth', { headers: { ...headers, 'X-Forwarded-Method': method, 'X-Forwarded-Uri': '/a?x=1' } });
    t.equal(asked.status, status === 200 ? 200 : 403, `${method} by forward-auth`);
    t.match(asked.log.at(-1), decided);
    const byGrpc = await decideByGrpc(checkBytes({ method, target: '/a?x=1', headers }));
    t.match(byGrpc.log.at(-1), decided, `${method} by gRPC`);
  }
}); // prettier-ignore

t.test('a body is refused with GET and HEAD only, and an empty one is none', async (t) => {
  const { request, requestByHttp2, token } = await startInProcess(t, {
    routes: [{ path: '/any/*', action: 'api', body_on_read: 'allow' }],
  });
  const key = { 'Service-Key': await token('superuser') };
  const chunked = { ...key, 'Transfer-Encoding': 'chunked' };
  for (const method of METHODS) {
    const refuses = method === 'GET' || method === 'HEAD';
    const statusOf = async (send: typeof request, path: string, sent: Sent) => (await send(path, { method, ...sent })).status;
    for (const [send, headers] of [[request, key], [request, chunked], [requestByHttp2, key]] as const) {
      t.equal(await statusOf(send, '/a', { headers, body: 'x' }), refuses ? 400 : 200, `${method} with a body`);
      t.equal(await statusOf(send, '/any/a', { headers, body: 'x' }), 200, `${method} where a body is allowed`);
      t.equal(await statusOf(send, '/a', { headers, body: '' }), 200, `${method} with an empty body`);
    }
  }
}); // prettier-ignore
