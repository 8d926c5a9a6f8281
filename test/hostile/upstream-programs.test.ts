import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { type Reply, send } from '../helpers/http.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import {
  startUpstreamProgram,
  type Understood,
  UPSTREAM_PROGRAMS,
  type UpstreamProgram,
} from '../helpers/upstream-programs.js';
import { PROTECTED, SEPARATORS, spelledWith } from './protected-names.js';

/**
 * Separators that a program treats like `-`. Without Latchkey in front, each such spelling must
 * arrive.
 */
const READ_ALIKE: Readonly<Record<UpstreamProgram, string>> = {
  'lighttpd with CGI': SEPARATORS,
  'lighttpd with php-cgi': SEPARATORS,
  "PHP's own server": '-_.',
  'Python with WSGI': '-_',
};
/** Queries that name a second service for some of the programs. */
const QUERIES = [
  'service_id=SVC1&service.id=EVIL', 'service_id=SVC1&service_id[]=EVIL', 'service_id=SVC1&%20service_id=EVIL', 'service_id=SVC1&+service_id=EVIL',
  'service_id=SVC1&service_id%00=EVIL', 'service_id=SVC1&service_id%00x=EVIL', 'service_id=SVC1&service[id=EVIL', 'service_id=SVC1&service+id=EVIL',
  'service_id=SVC1&service%5Fid=EVIL', 'service_id[a]=EVIL', 'service.id=EVIL', 'service_id=SVC1&service_id=EVIL', 'service_id=SVC1;service_id=EVIL',
]; // prettier-ignore

const ROUTES = [
  { path: '/field', action: 'service', service: 'header:Service-Id' },
  { path: '/query', action: 'service', service: 'query:service_id' },
  { path: '/open', auth: 'none' },
];

for (const program of EVERY_CASE ? UPSTREAM_PROGRAMS : UPSTREAM_PROGRAMS.slice(-1)) {
  t.test(program, async (t) => {
    const direct = await startUpstreamProgram(t, program);
    const { url, token } = await startFixture(t, { upstream: direct, routes: ROUTES });
    const credential = { 'Service-Key': await token('engineer', { services: 'SVC1' }) };
    const understood = (reply: Reply): Understood => {
      if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
      return reply.json as Understood;
    };

    await t.test('no forged field becomes a variable', async (t) => {
      for (const separator of SEPARATORS) {
        const forged = Object.fromEntries(
          PROTECTED.filter((name) => name !== 'Service-Key').map((name) => [spelledWith(name, separator), 'EVIL']),
        );
        const past = understood(await send(direct, '/open', { headers: forged })).variables['HTTP_X_AUTH_ROLE'];
        t.equal(past, READ_ALIKE[program].includes(separator) ? 'EVIL' : undefined, `${separator} without Latchkey`);
        for (const [path, more, role] of [
          ['/open', {}, undefined],
          ['/field', { ...credential, 'Service-Id': 'SVC1' }, 'engineer'],
        ] as const) {
          const { variables } = understood(await send(url, path, { headers: { ...forged, ...more } }));
          const evil = Object.entries(variables).filter(([, value]) => value.includes('EVIL'));
          t.same(evil, [], `${separator} at ${path}`);
          t.equal(variables['HTTP_X_AUTH_ROLE'], role);
          t.equal(variables['HTTP_SERVICE_KEY'], undefined);
        }
      }
    });

    await t.test('the program reads the service that was judged', async (t) => {
      for (const separator of SEPARATORS.replace('-', '')) {
        const sent = { ...credential, 'Service-Id': 'SVC1', [`Service${separator}Id`]: 'EVIL' };
        t.equal((await send(url, '/field', { headers: sent })).status, 400, separator);
      }
      const removed = { ...credential, 'Service-Id': 'SVC1', Connection: 'Service-Id' };
      t.equal((await send(url, '/field', { headers: removed })).status, 400);
      const judged = { ...credential, 'Service-Id': 'SVC1' };
      const { variables } = understood(await send(url, '/field', { headers: judged }));
      t.equal(variables['HTTP_SERVICE_ID'], 'SVC1');
      for (const query of QUERIES)
        t.equal((await send(url, `/query?${query}`, { headers: credential })).status, 400, query);
      const { parameters } = understood(await send(url, '/query?a=1&service_id=SVC1', { headers: credential }));
      t.equal([parameters['service_id']].flat().join(), 'SVC1');
    });
  });
} // prettier-ignore

t.test('PHP reads another service from these queries', async (t) => {
  const direct = await startUpstreamProgram(t, "PHP's own server");
  const replies = await Promise.all(QUERIES.map((query) => send(direct, `/query?${query}`)));
  const read = replies.filter(({ json }) => JSON.stringify((json as Understood).parameters['service_id'])?.includes('EVIL'));
  t.ok(read.length >= 10, `${read.length} of ${QUERIES.length} name another service`);
}); // prettier-ignore
