import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { stringify } from 'yaml';
import { readLogLine } from '../../src/commands/log-lines.js';
import { callersOf, createReplay } from '../../src/commands/replay-judge.js';
import { replay } from '../../src/commands/replay.js';
import { loadCandidate, loadConfig } from '../../src/config/load.js';
import { diffPolicies } from '../../src/policy-diff/compare.js';
import { temporaryFolder } from '../helpers/latchkey.js';

const folder = temporaryFolder(t);
function write(name: string, content: object): string {
  const file = join(folder, name);
  writeFileSync(file, stringify(content));
  return file;
}

const subject = (job: string, role: string, more: object = {}) => ({
  claims: { job },
  customer_id: 'C1',
  role,
  scope: ['global'],
  ...more,
});
const issuer = (name: string, ...subjects: object[]) => ({
  name,
  issuer: `https://${name}.example`,
  audience: 'latchkey',
  jwks: { url: `https://${name}.example/keys` },
  algorithms: ['RS256'],
  subjects,
});
const running = loadConfig(
  write('latchkey.yaml', {
    upstream: 'http://127.0.0.1:1',
    store: { type: 'lmdb', path: './none' },
    policy: { roles: { admin: { allow: ['*'] }, dev: { allow: ['*'], deny: ['a:*'] } }, scopes: { global: { allow: ['*'] } } },
    routes: [
      { path: '/a', action: 'a' },
      { path: '/open', auth: 'none' },
      { path: '/closed', action: 'c' },
      { path: '/site', action: 'site', service: 'header:Site' },
      { path: '/same', action: 'same' },
      { path: '/denied', auth: 'deny' },
    ],
    jwt_issuers: [
      issuer('ci', subject('x', 'dev')),
      issuer('two', subject('x', 'dev'), subject('y', 'admin')),
      issuer('limited', subject('x', 'admin', { services: ['S1'] })),
      issuer('named', subject('x', 'dev', { claims: { sub: 'x*' } }), subject('x', 'admin')),
    ],
  }),
  {},
); // prettier-ignore
const candidate = loadCandidate(
  write('next.yaml', {
    policy: { roles: { admin: { allow: ['*'], deny: ['d:*'] }, dev: { allow: ['*'] } }, scopes: { global: { allow: ['*'] } } },
    routes: [
      { path: '/a', action: 'a' },
      { path: '/open', action: 'o' },
      { path: '/closed', auth: 'none' },
      { path: '/site', action: 'd' },
      { path: '/same', action: 'same' },
      { path: '/denied', action: 'denied' },
    ],
  }),
  running,
  {},
); // prettier-ignore

const ENTRY = { msg: 'request', request_id: 'r', method: 'GET', outcome: 'forwarded', decision: 'allowed' };
const jwt = (name: string) => ({
  user_id: `${name}/x`,
  customer_id: 'C1',
  credential: 'jwt',
  issuer: name,
  subject: 'x',
});
const token = { user_id: 'U1', customer_id: 'C1', credential: 'token', token_id: 'T1' };
const refused = (outcome: string) => ({ decision: 'refused', outcome });

t.test('replays each request, or says why not', async (t) => {
  const compared = await diffPolicies(running, candidate);
  const replayOne = createReplay(compared, callersOf(null, running));
  const rows: readonly (readonly [string, object, string | RegExp])[] = [
    ['a request without a head', { method: undefined }, /head could not be read/],
    ['no path in the log', { path: undefined }, /log\.fields/],
    ['a path that may be truncated', { path: `/${'a'.repeat(511)}` }, /truncated/],
    ['a token in the path', { path: `/lk${'*'.repeat(38)}` }, /masked/],
    ['a JWT whose issuer has one subject', { path: '/a', ...jwt('ci'), ...refused('role') }, 'newly_allowed'],
    ['a JWT with several subjects, one of them refused like that', { path: '/a', ...jwt('two'), ...refused('role') }, /claims of the JWT/],
    ['a JWT with several subjects, one of them allowed', { path: '/a', ...jwt('two') }, /claims of the JWT/],
    ['a JWT with several subjects, all of them allowed', { path: '/site', ...jwt('two') }, /claims of the JWT/],
    ['a JWT whose claim sub is enough', { path: '/site', ...jwt('named') }, 'unchanged'],
    ['a removed issuer', { path: '/a', ...jwt('gone'), ...refused('role') }, /claims of the JWT/],
    ['a token without a store', { path: '/a', ...token }, /no store to look it up/],
    ['a token where nothing changes', { path: '/same', ...token }, 'unchanged'],
    ['no credential, on a route that opens', { path: '/closed', ...refused('unauthenticated') }, 'newly_allowed'],
    ['an expired token on it', { path: '/closed', ...refused('token_expired') }, 'newly_allowed'],
    ['a caller on a route that closes', { path: '/open' }, /requires no credential so far/],
    ['a caller on a route that was denied to all', { path: '/denied', ...refused('not_found') }, /requires no credential so far/],
    ['a rate limit', { path: '/site', ...jwt('ci'), ...refused('token_rate') }, /does not contain: token_rate/],
    ['a preflight', { path: '/closed', outcome: 'preflight', decision: undefined }, /no decision was made: preflight/],
    ['a service that must have been named', { path: '/site', ...jwt('limited') }, 'newly_refused'],
    ['a service that was not named', { path: '/site', ...jwt('limited'), ...refused('service') }, 'unchanged'],
    ['an unsupported method', { path: '/a', method: 'TRACE', ...token }, 'unchanged'],
    ['a path that is always refused', { path: '/a%00', ...token }, 'unchanged'],
  ];
  for (const [name, more, expected] of rows) {
    const request = readLogLine(JSON.stringify({ ...ENTRY, ...more }));
    if (typeof request === 'string' ) throw new Error(name);
    const replayed = await replayOne(request);
    if (typeof expected === 'string') t.equal(replayed.outcome, expected, name);
    else t.match(replayed, { outcome: 'undecided', why: expected }, name);
  }
}); // prettier-ignore

t.test('counts every line of a log once', async (t) => {
  const file = join(folder, 'access.log');
  const lines = [
    { ...ENTRY, path: '/a', time: '2026-03-04T11:00:00.000Z', ...jwt('ci'), ...refused('role') },
    { ...ENTRY, path: '/a', time: '2026-03-04T10:00:00.000Z', ...jwt('ci'), ...refused('role'), config_hash: 'other' },
    { ...ENTRY, path: '/same' },
    { ...ENTRY },
    { msg: 'ready' },
  ];
  writeFileSync(file, `${lines.map((line) => JSON.stringify(line)).join('\n')}\nno entry\n`);
  const compared = await diffPolicies(running, candidate);
  t.match(await replay(running, compared, file), {
    requests: 4,
    unchanged: 1,
    newly_allowed: 2,
    newly_refused: 0,
    not_judged: [{ why: /no path/, requests: 1 }],
    unreadable_lines: 1,
    other_entries: 1,
    other_configuration: 1,
    noticed: [
      {
        customer_id: 'C1',
        user_id: 'ci/x',
        credential: 'jwt',
        requests: 2,
        first: '2026-03-04T10:00:00+00:00',
        last: '2026-03-04T11:00:00+00:00',
        route: { path: '/a' },
      },
    ],
  });
}); // prettier-ignore
