import t from 'tap';
import { Simulator } from '../../src/pipeline/simulate.js';
import { checkBytes } from '../helpers/grpc.js';
import { startInProcess } from '../helpers/in-process.js';

/*
 * Requests with two faults: every entrance refuses them for the same one, and so does `explain`.
 * Beyond twice a limit, the parser of HTTP/1.1 refuses a request before its head is read.
 */

type Fault = { method?: string; target?: string; fields?: readonly (readonly [string, string])[] };

const LIMITS = { target_size: '1KiB', head_fields: 20 };
const many = (count: number) => Array.from({ length: count }, (_, i) => [`x-${i}`, 'a'] as const);
const FAULTS: Record<string, Fault> = {
  'a method that is never served': { method: 'TRACE' },
  'a target over its limit': { target: `/${'a'.repeat(1_500)}` },
  'a target far over its limit': { target: `/${'a'.repeat(3_000)}` },
  'a target that two parsers read differently': { target: '/a%00' },
  'fields over their number': { fields: many(30) },
  'fields far over their number': { fields: many(60) },
  'fields over their size': { fields: [['x-note', 'a'.repeat(20_000)]] },
  'two credentials': { fields: [['service-key', 'a'], ['service-key', 'b']] },
  'a repeated field': { fields: [['user-agent', 'a'], ['user-agent', 'b']] },
  'an expectation': { fields: [['expect', 'x']] },
  'a host that is none': { fields: [['host', 'a b']] },
  'no credential': {},
}; // prettier-ignore

t.test('two faults are refused for the same one at every entrance', async (t) => {
  const server = await startInProcess(t, { limits: LIMITS });
  const simulator = new Simulator(server.loaded, server.opened.store);
  const names = Object.keys(FAULTS);
  for (const [i, first] of names.entries())
    for (const second of names.slice(i)) {
      const { method, target, fields } = joined(FAULTS[first] ?? {}, FAULTS[second] ?? {});
      const headers: Record<string, string[]> = {};
      for (const [name, value] of fields) (headers[name] ??= []).push(value);
      const { host = ['api.example'], ...rest } = headers;
      const hosted = { Host: host, ...rest };
      const sent = { method, headers: hosted };
      const { status } = await server.handshake(target, sent);
      const told = `${first}, ${second}: ${status}`;
      const asked = { method, target, fields: fields.flat(), as: 'anonymous' as const };
      const { verdict } = await simulator.simulate(asked, Date.now());
      t.equal('status' in verdict ? verdict.status : undefined, status, `${told}, as explain says`);
      // Node's client sends no such request.
      if (!/host|repeated/.test(told)) {
        const lone = Object.fromEntries(Object.entries(hosted).map(([name, [value = '', ...more]]) => [name, more.length === 0 ? value : [value, ...more]]));
        const { status: overHttp2 } = await server.requestByHttp2(target, { method, headers: lone });
        // No parser of fields comes before the target there.
        const isLongToo = status === 431 && target.length > 1_024;
        t.equal(overHttp2, isLongToo ? 414 : status, `${told} over HTTP/2`);
      }
      const denied = status === 401 ? 401 : 403;
      const original = { ...hosted, 'X-Original-Method': method, 'X-Original-URI': target };
      const decided = await server.decide('/auth-request', { method: 'GET', headers: original });
      t.equal(decided.status, denied, `${told} to nginx`);
      const { status: byEnvoy } = await server.decide(`/ext_authz${target}`, { method, headers: hosted });
      t.equal(byEnvoy, denied, `${told} to Envoy over HTTP`);
      t.equal((await server.decideByGrpc(checkBytes({ method, target, headers: hosted }))).status, denied, `${told} to Envoy over gRPC`);
    }
}); // prettier-ignore

function joined(a: Fault, b: Fault) {
  return {
    method: a.method ?? b.method ?? 'GET',
    target: a.target ?? b.target ?? '/service/SVC1',
    fields: [...(a.fields ?? []), ...(b.fields ?? [])],
  };
}
