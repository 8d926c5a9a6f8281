import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { needPackages, runs } from '../helpers/debian.js';
import { PASSWORD } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { nightly } from '../helpers/nightly.js';
import { until, untilHourLasts, untilNextSecond } from '../helpers/until.js';
import { type Ended, runClient, startForClients, type Step, WRITES } from './start.js';

/*
 * Published third-party clients, started as their users start them. The test is what they print and
 * return.
 */
const { url, create, token, api, home, cli, tls, byName, library } = await startForClients(t);

// Lists are ordered by creation second: the legacy key's token, then this one, then all others.
await untilNextSecond();
const admin = (await create('superuser', { name: 'admin' })).json;
await untilNextSecond();
const key = admin.access_token as string;
const expiresAt = Math.floor(Date.now() / 1000) * 1000 + 3_000;
const [purger, limited, reader, engineer, short, revoked] = await Promise.all([
  token('superuser', { scope: 'purge_select' }),
  token('superuser', { scope: 'purge_select purge_all', service_id: 'SVC1' }),
  token('superuser', { scope: 'global:read' }),
  token('engineer'),
  token('superuser', { expires_at: new Date(expiresAt).toISOString() }),
  token('superuser'),
]); // prettier-ignore
await send(url, '/tokens/self', { method: 'DELETE', headers: { 'Fastly-Key': revoked } });

const ok = (pattern: RegExp) => [0, pattern] as const;
const failed = (pattern: RegExp) => [1, pattern] as const;

t.test('the command line: identity, lists and purges', async (t) => {
  writeFileSync(join(home, 'keys'), 'k1\nk2\n');
  await cli(['version'], key);
  const purge = (...args: string[]) => ['service', 'purge', '--service-id', 'SVC1', ...args];
  const rows: [args: string[], key: string, wanted: readonly [number, RegExp]][] = [
    [['whoami'], key, ok(/^superuser <superuser@example\.com>$/m)],
    [['whoami', '--verbose'], key, ok(/Customer name: One[^]*Token name: admin[^]*Token scope: global[^]*Service count: 2/)],
    [['user', 'describe', '--current'], key, ok(/Login: superuser@example\.com[^]*Role: superuser[^]*Customer ID: C1/)],
    [['user', 'list', '--customer-id', 'C1'], key, ok(/superuser@example\.com/)],
    [['auth-token', 'describe'], key, ok(new RegExp(`ID: ${admin.id}\\nName: admin\\nUser ID: superuser[^]*Scope: global[^]*Last used at:`))],
    [['auth-token', 'list', '--json'], key, ok(/"ExpiresAt": null,[^]*"LastUsedAt": null,[^]*"Services": \[\n +"SVC1"/)],
    [['auth-token', 'list', '--customer-id', 'C1'], key, ok(/Global API Token/)],
    [['service', 'list'], key, ok(/^www +SVC1 [^]*^shop +SVC2 /m)],
    [['service', 'describe', '--service-id', 'SVC1'], key, ok(/Name: www/)],
    [['stats', 'historical', '--service-id', 'SVC1'], key, ok(/By: day/)],
    [purge('--all'), key, ok(/Purge all status: ok/)],
    [purge('--key', 'a/b%20c'), key, ok(/Purged key: a\/b%20c/)],
    [purge('--key', 'a', '--soft'), purger, ok(/soft: true/)],
    [purge('--file', join(home, 'keys')), limited, ok(/^k1 +108-0\nk2 +108-1$/m)],
    [purge('--url', 'http://www.example.com/a?x=1&y=%2F'), purger, ok(/Purged URL: http:\/\/www\.example\.com\/a\?x=1&y=%2F/)],
    [['service', 'list'], 'wrong', failed(/401 Unauthorized: Provided credentials are missing or invalid/)],
    [['whoami'], revoked, failed(/Provided credentials are missing or invalid|401/)],
    [['service', 'list'], purger, failed(/403 Forbidden: .*The scope purge_select is not allowed to perform api:read/)],
    [purge('--all'), purger, failed(/403 Forbidden: .*The scope purge_select is not allowed to perform purge:all/)],
    [purge('--all'), reader, failed(/403 Forbidden: .*Read only tokens are not allowed to access this endpoint/)],
    [['service', 'purge', '--service-id', 'SVC2', '--key', 'a'], limited, failed(/403 Forbidden: .*service SVC2/)],
    [['auth-token', 'list'], engineer, failed(/403 Forbidden: .*engineer/)],
    [['auth-token', 'delete', '--id', 'none'], key, failed(/404 Not Found: Record not found \(Cannot find token 'none'\)/)],
  ];
  await eachPair(rows, async ([args, as, [code, pattern]]) => {
    const ended = await cli(args, as);
    t.match(ended, { code, out: pattern }, args.join(' '));
  });
  const overTls = await cli(['auth-token', 'describe'], key, tls);
  t.match(overTls, { code: 0, out: /Name: admin/ }, 'over TLS');
  t.ok(api.asked.some(({ line }) => line === 'POST /purge/http://www.example.com/a?x=1&y=%2F'), 'byte for byte');
}); // prettier-ignore

t.test('the command line: creates, stores and revokes tokens', nightly, async (t) => {
  const make = (...args: string[]) => cli(['auth-token', 'create', '--password', PASSWORD, ...args], key);
  const wrong = await cli(['auth-token', 'create', '--password', 'wrong password'], key);
  t.match(wrong, { code: 1, out: /403 Forbidden: invalid_grant/ });
  const made = await make('--name', 'cli', '--scope', 'purge_select', '--scope', 'purge_all', '--services', 'SVC1,SVC2', '--expires', '2099-01-01T00:00:00+01:00');
  t.match(made, { code: 0, out: /Created token 'lk\w{38}' \(name: cli, id: \w{22}, scope: purge_select purge_all, expires: 2098-12-31 23:00:00 \+0000 UTC\)/ });
  const [, secret = '', id = ''] = /'(lk\w{38})' \(name: cli, id: (\w{22})/.exec(made.out) ?? [];
  t.match((await send(url, '/tokens/self', { headers: { 'Fastly-Key': secret } })).json, { services: ['SVC1', 'SVC2'], service_id: 'SVC2' });
  t.match(await cli(['auth-token', 'delete', '--id', id], key), { code: 0, out: /Deleted token/ });
  t.match(await cli(['auth-token', 'describe'], secret), { code: 1, out: /401 Unauthorized/ }, 'revoked');

  const more = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map(async (name) => (await create('superuser', { name })).json));
  const [a, b, c, d, e, f, g] = more.map((each) => ({ id: each.id as string, secret: each.access_token as string })) as [{ id: string; secret: string }, ...{ id: string; secret: string }[]] & { length: 7 };
  const file = join(home, 'ids');
  writeFileSync(file, `${a.id}\n${b?.id}\n`);
  t.match(await cli(['auth-token', 'delete', '--file', file], key), { code: 0, out: /Deleted tokens/ });
  writeFileSync(file, `${c?.id}\n${d?.id}\n`);
  t.match(await cli(['auth', 'revoke', '--auto-yes', '--file', file], key), { code: 0, out: /Revoked 2 token\(s\)/ });
  t.match(await cli(['auth', 'revoke', '--auto-yes', '--token-value', e?.secret ?? ''], key), { code: 0, out: /Revoked token/ });
  t.match(await cli(['auth', 'revoke', '--auto-yes', '--id', f?.id ?? ''], key), { code: 0, out: /Revoked token/ });

  t.match(await cli(['auth', 'add', '--api-token', g?.secret ?? '', 'mine'], ''), { code: 0, out: /Token "mine" added/ });
  t.match(await cli(['auth', 'list'], ''), { code: 0, out: /^\* mine \(superuser@example\.com\)$/m });
  t.match(await cli(['auth', 'show', 'mine'], ''), { code: 0, out: /Email: superuser@example\.com\nAccount ID: C1\nAPI token name: g\nAPI token scope: global/ });
  t.match(await cli(['auth', 'token'], ''), { code: 0, out: new RegExp(`^${g?.secret}`) });
  t.match(await cli(['whoami'], ''), { code: 0, out: /superuser@example\.com/ }, 'with the stored token');
  t.match(await cli(['auth', 'revoke', '--auto-yes', '--name', 'mine'], ''), { code: 0, out: /Revoked token "mine"/ });
  for (const each of more) t.equal((await send(url, '/tokens/self', { headers: { 'Fastly-Key': each.access_token } })).status, 401, each.name);
}); // prettier-ignore

t.test("the vendor's library", async (t) => {
  const mine = await Promise.all([1, 2, 3].map(async () => (await create('superuser')).json));
  const [one, two, three] = mine as [typeof admin, typeof admin, typeof admin];
  const bulk = { request_body: { data: [{ type: 'token', id: two.id }] } };
  const rows: [step: Step, wanted: object | null][] = [
    [['TokensApi.getTokenCurrent'], { id: admin.id, name: 'admin', scope: 'global', services: [], expires_at: null, user_id: 'superuser', user_agent: /^fastly-js/ }],
    [['TokensApi.listTokensUser'], [{ id: admin.id, ip: '127.0.0.1' }]],
    [['TokensApi.listTokensCustomer', { customer_id: 'C1' }], [{ name: 'Global API Token', last_used_at: null, ip: null, user_agent: null }]],
    [['TokensApi.getToken', { token_id: one.id }], { id: one.id }],
    [['TokensApi.revokeToken', { token_id: one.id }], null],
    [['TokensApi.bulkRevokeTokens', bulk], null],
    [['UserApi.getCurrentUser'], { id: 'superuser', login: 'superuser@example.com', role: 'superuser', customer_id: 'C1', created_at: /Z$/, locked: false }],
    [['CustomerApi.getLoggedInCustomer'], { id: 'C1', name: 'One' }],
    [['SudoApi.requestSudoAccess', { sudo_request: { username: 'superuser@example.com', password: PASSWORD } }], { expiry_time: /Z$/ }],
    [['ServiceApi.listServices'], [{ id: 'SVC1' }, { id: 'SVC2' }]],
    [['ServiceApi.getService', { service_id: 'SVC1' }], { name: 'www' }],
    [['PurgeApi.purgeTag', { service_id: 'SVC1', surrogate_key: 'a/b c' }], { status: 'ok' }],
    [['PurgeApi.bulkPurgeTag', { service_id: 'SVC1', purge_response: { surrogate_keys: ['a', 'b'] } }], { a: '108-0', b: '108-1' }],
    [['PurgeApi.purgeSingleUrl', { cached_url: 'www.example.com/a?x=1' }], { status: 'ok' }],
    [['limits'], [1_000, null]],
    [['PurgeApi.purgeAll', { service_id: 'SVC1' }], { status: 'ok' }],
    [['limits'], [Number, Number]],
    [['authenticate', three.access_token], null],
    [['TokensApi.revokeTokenCurrent'], null],
  ];
  const refused: [step: Step, status: number, body: object][] = [
    [['TokensApi.getTokenCurrent'], 401, { msg: 'Provided credentials are missing or invalid' }],
    [['authenticate', key], 0, {}],
    [['TokensApi.getToken', { token_id: 'none' }], 404, { msg: 'Record not found', detail: "Cannot find token 'none'" }],
    [['TokensApi.bulkRevokeTokens', { request_body: { data: [{ type: 'token', id: 'none' }] } }], 404, { detail: /none/ }],
    [['TokensApi.listTokensCustomer', { customer_id: 'C2' }], 403, { detail: /./ }],
    // It cannot send a name and a password, so it cannot create tokens anywhere.
    [['TokensApi.createToken'], 400, { code: 'invalid_request' }],
    [['SudoApi.requestSudoAccess', { sudo_request: { password: 'wrong password' } }], 403, { msg: 'invalid_grant' }],
    [['authenticate', limited], 0, {}],
    [['PurgeApi.purgeTag', { service_id: 'SVC2', surrogate_key: 'a' }], 403, { detail: /service SVC2/ }],
    [['ServiceApi.createService', { name: 'x' }], 403, { detail: /scope/ }],
  ];
  const told = await library('fastly', key, [...rows, ...refused].map(([step]) => step));
  rows.forEach(([step, wanted], i) => t.match(told[i]?.ok === null ? { ok: null } : told[i], { ok: wanted }, step[0]));
  refused.forEach(([step, status, body], i) => {
    if (status > 0) t.match(told[rows.length + i], { error: { status, body } }, `${step[0]}: ${status}`);
  });
  const [, [remaining, reset]] = told.flatMap((each, i) => (rows[i]?.[0][0] === 'limits' ? [each.ok as number[]] : [])) as [number[], [number, number]];
  t.ok(remaining < WRITES, `it reports that ${remaining} writes are left`);
  t.equal(reset % 3_600, 0, 'and until when');
}); // prettier-ignore

t.test('older versions of its libraries', nightly, async (t) => {
  const self = { id: admin.id, name: 'admin', scope: 'global', services: [] };
  const [seven, three, two] = await Promise.all([
    library('fastly-7', key, [['TokensApi.getTokenCurrent'], ['TokensApi.listTokensUser'], ['UserApi.getCurrentUser'], ['PurgeApi.purgeTag', { service_id: 'SVC1', surrogate_key: 'a' }], ['PurgeApi.purgeAll', { service_id: 'SVC2' }]]),
    library('fastly-3', key, [['TokensApi.getTokenCurrent'], ['TokensApi.listTokensUser'], ['PurgeApi.purgeTag', { service_id: 'SVC1', surrogate_key: 'a' }]]),
    library('fastly-2', limited, [['purgeAll', 'SVC1'], ['softPurgeKey', 'SVC1', 'a'], ['purge', 'www.example.com', '/a'], ['purgeKey', 'SVC2', 'a'], ['stats', 'SVC1']], 'by name'),
  ]);
  t.match(seven, [{ ok: self }, { ok: [self] }, { ok: { id: 'superuser' } }, { ok: { status: 'ok' } }, { ok: { status: 'ok' } }], 'major 7');
  t.match(three, [{ ok: self }, { ok: [self] }, { ok: { status: 'ok' } }], 'major 3');
  t.match(two, [{ ok: { status: 'ok' } }, { ok: { status: 'ok' } }, { ok: { status: 'ok' } }, { error: { status: 403, body: /service SVC2/ } }, { error: { status: 403, body: /The scope/ } }], 'major 2');
}); // prettier-ignore

t.test('third-party libraries', nightly, async (t) => {
  const purges: Step[] = [['purgeIndividual', 'http://www.example.com/a?b'], ['purgeAll'], ['purgeKey', 'a/b'], ['purgeKeys', ['a', 'b']], ['softPurgeKey', 'a']];
  const purged = [{ ok: { status: 'ok' } }, { ok: { status: 'ok' } }, { ok: { status: 'ok' } }, { ok: { a: '108-0', b: '108-1' } }, { ok: { status: 'ok' } }];
  const parameters = { username: 'superuser@example.com', password: PASSWORD, name: 'native', scope: 'purge_select', services: ['SVC1', 'SVC2'], expires_at: '2099-01-01T00:00:00Z' };
  const [promises, refused, native, apis, purge, bad] = await Promise.all([
    library('fastly-promises', limited, [...purges]),
    library('fastly-promises', purger, [['purgeAll'], ['readVersions'], ['dataCenters']]),
    library('@adobe/fastly-native-promises', key, [
      ['readToken'], ['readTokens'], ['readTokens', 'C1'], ['createToken', parameters], ['createToken', { ...parameters, password: 'wrong' }],
      ['createToken', { ...parameters, services: [] }], ['deleteToken', 'none'], ['readCurrentUser'], ['readUsers'], ...purges, ['purgeAll'], ['remaining'],
    ], 'by name'),
    library('fastly-api', limited, [['key', 'a b'], ['key', 'a', true], ['all'], ['url', `${url}/page?x`]]),
    library('fastly-purge', limited, [['service', 'SVC1'], ['key', 'SVC1', 'a b'], ['key', 'SVC2', 'a'], ['key', 'SVC1', 'k', { softPurge: true }]], 'by name'),
    library('fastly-api', revoked, [['all']]),
  ]);
  t.match(promises, purged, 'fastly-promises');
  t.match(refused, [{ error: { status: 403, body: { detail: /purge:all/ } } }, { error: { status: 403, body: { detail: /service:read/ } } }, { error: { status: 403, body: { detail: /api:read/ } } }]);
  const created = { name: 'native', scope: 'purge_select', services: ['SVC1', 'SVC2'], expires_at: '2099-01-01T00:00:00+00:00', access_token: /^lk\w{38}$/ };
  t.match(native, [
    { ok: { id: admin.id } }, { ok: [{ id: admin.id }] }, { ok: [{ name: 'Global API Token' }] }, { ok: created }, { error: { status: 400, code: 'invalid_grant' } },
    { error: { status: 422, body: /service/ } }, { error: { status: 404, code: 'Record not found', body: "Cannot find token 'none'" } }, { ok: { customer_id: 'C1' } }, { ok: [{ id: 'superuser' }] },
    ...purged, { ok: { status: 'ok' } }, { ok: Number },
  ], '@adobe/fastly-native-promises, over HTTP/2');
  t.match(apis, [{ ok: { status: 'ok' } }, { ok: { status: 'ok' } }, { ok: { status: 'ok' } }, { ok: { status: 'ok' } }], 'fastly-api');
  t.match(purge, [{ ok: { status: 'ok' } }, { ok: { status: 'ok' } }, { error: { status: 403, body: /service SVC2/ } }, { ok: { status: 'ok' } }], 'fastly-purge');
  t.match(bad, [{ error: { body: 'Failed, status code 401' } }]);
}); // prettier-ignore

t.test('fastly-cli', nightly, async (t) => {
  const run = (as: string, ...args: string[]) => byName('fastly-cli/src/fastly.js', ...args, '--apikey', as);
  const rows: [as: string, args: string[], out: RegExp][] = [
    [limited, ['purge-all', '--serviceid', 'SVC1'], /All content purged/],
    [limited, ['purge-key', 'a/b', '--serviceid', 'SVC1'], /Purged key: a\/b/],
    [purger, ['purge', 'https://www.example.com/a', '--serviceid', 'SVC1'], /Purged URL/],
    [limited, ['purge-key', 'a', '--serviceid', 'SVC2'], /service SVC2[^]*statusCode: 403/],
    ['wrong', ['purge-all', '--serviceid', 'SVC1'], /Provided credentials are missing[^]*statusCode: 401/],
  ];
  // It exits with 0 whatever happens.
  await eachPair(rows, async ([as, args, out]) => void t.match(await run(as, ...args), { code: 0, out }, args.join(' ')));
}); // prettier-ignore

t.test('curl, wget, Python and Perl', async (t) => {
  needPackages(() => runs('curl', '--version') && runs('wget', '--version') && runs('python3', '--version'), 'curl', 'wget', 'python3');
  const jar = join(home, 'cookies');
  const curl = (...args: string[]) => runClient('curl', ['-sS', '-w', ' %{http_code} %{content_type}', ...args]);
  const wget = (...args: string[]) => runClient('wget', ['-qO-', '--content-on-error', ...args]);
  const named = ['-d', 'username=superuser@example.com', '--data-urlencode', `password=${PASSWORD}`];
  const python = (code: string) => runClient('python3', ['-c', `import http.client, json, urllib.parse, urllib.request as r\nurl=${JSON.stringify(url)}\nkey=${JSON.stringify(key)}\npassword=${JSON.stringify(PASSWORD)}\n${code}`]);
  const perl = (code: string) => runClient('perl', ['-MHTTP::Tiny', '-e', `my $url=${JSON.stringify(url)}; my $h={'Fastly-Key'=>'${key}'}; my $u=HTTP::Tiny->new; ${code}`]);
  const fetchAs = (secret: string) => runClient(process.execPath, ['-e', `fetch(${JSON.stringify(`${url}/tokens/self`)}, { headers: { Authorization: 'Bearer ${secret}' } }).then(async (res) => console.log(res.status, (await res.json()).user_id))`]);
  const made: [string, Promise<Ended>, RegExp][] = [
    ['curl -d', curl(...named, '-d', 'services[]=SVC1', '-d', 'expires_at=2099-01-01T00:00:00+00:00', `${url}/tokens`), /"services":\["SVC1"\].*"expires_at":"2099-01-01T00:00:00\+00:00".* 200 application\/json$/s],
    ['curl --json', curl('-H', 'Content-Type: application/json', '-d', JSON.stringify({ username: 'superuser@example.com', password: PASSWORD, services: ['SVC1'] }), `${url}/tokens`), /"services":\["SVC1"\]/],
    ['curl, no User-Agent and no Accept', curl('-A', '', '-H', 'Accept:', '-H', `fastly-key: ${key}`, `${url}/tokens/self`), /"user_agent":null}\n 200/],
    ['curl, a large body with Expect', curl('-H', 'Expect: 100-continue', ...named, '-d', `x=${'y'.repeat(20_000)}`, `${url}/tokens`), / 200 application\/json$/],
    ['curl -X PURGE', curl('-X', 'PURGE', '-H', `Fastly-Key: ${purger}`, `${url}/some/page`), /"status":"ok".* 200/s],
    ['curl -I', curl('-I', '-H', `Fastly-Key: ${key}`, `${url}/tokens/self`), /^HTTP\/1\.1 200 OK\r\n[^]*Content-Type: application\/json\r\n/],
    ['curl, wrong key', curl('-H', 'Fastly-Key: x', `${url}/service`), /^{"msg":"Provided credentials are missing or invalid"}\n 401 application\/json$/],
    ['curl --oauth2-bearer', curl('--oauth2-bearer', key, `${url}/tokens/self`), /"name":"admin".* 200 application\/json$/s],
    ['curl --oauth2-bearer, forwarded', curl('--oauth2-bearer', limited, '-X', 'POST', `${url}/service/SVC1/purge/a`), /"status":"ok".* 200/s],
    ['curl --oauth2-bearer, revoked', curl('-i', '--oauth2-bearer', revoked, `${url}/service`), /\r\nWWW-Authenticate: Basic realm="api", Bearer realm="api", error="invalid_token"[^]* 401 application\/json$/],
    ['curl --oauth2-bearer together with another key', curl('--oauth2-bearer', purger, '-H', `Fastly-Key: ${key}`, `${url}/service`), /both carry a credential.* 400 application\/json$/s],
    ['fetch', fetchAs(key), /^200 superuser$/m],
    ['fetch, wrong key', fetchAs('wrong'), /^401 undefined$/m],
    ['curl -f, wrong key', curl('-f', '-H', 'Fastly-Key: x', `${url}/service`).then(({ code, out }) => ({ code: code === 22 ? 0 : code, out })), /error: 401/],
    ['wget --post-data', wget('--post-data', `username=superuser%40example.com&password=${encodeURIComponent(PASSWORD)}&services%5B%5D=SVC2`, `${url}/tokens`), /"services":\["SVC2"\]/],
    ['wget --method=DELETE', token('superuser').then((mine) => wget('--method=DELETE', `--header=Fastly-Key: ${mine}`, `${url}/tokens/self`)), /^$/],
    ['wget, not allowed', wget(`--header=Fastly-Key: ${purger}`, `${url}/service`).then(({ code, out }) => ({ code: code === 8 ? 0 : code, out })), /"detail":"The scope purge_select/],
    ['urllib', python("form=urllib.parse.urlencode({'username':'superuser@example.com','password':password,'services[]':['SVC1','SVC2']},True).encode()\nprint(json.load(r.urlopen(url+'/tokens',form))['services'])"), /^\['SVC1', 'SVC2'\]$/m],
    ['http.client', python("c=http.client.HTTPConnection(url[7:])\nc.request('POST','/service/SVC1/purge/a%2Fb',headers={'Fastly-Key':key})\nprint(c.getresponse().status)"), /^200$/m],
    ['HTTP::Tiny', perl("my $r=$u->post_form(\"$url/tokens\",['username','superuser@example.com','password',q(" + PASSWORD + "),'services[]','SVC1','services[]','SVC2']); print $r->{status}, ($r->{content} =~ /\"services\":(\\S+?\\])/)"), /^200\["SVC1","SVC2"\]$/],
    ['HTTP::Tiny with TE', perl("$h->{TE}='deflate'; $h->{Connection}='TE, close'; print $u->get(\"$url/tokens/self\",{headers=>$h})->{status}"), /^200$/],
  ];
  for (const [name, ended, pattern] of made) t.match(await ended, { code: 0, out: pattern }, name);
  t.match(await curl('-c', jar, '-d', 'user=superuser@example.com', '--data-urlencode', `password=${PASSWORD}`, `${url}/login`), { out: /"customer":{"id":"C1","name":"One"}}\n 200/ });
  t.match(await curl('-b', jar, `${url}/tokens`), { out: /^\[{"id":.* 200 application\/json$/s }, 'the session');
  t.match(await curl('-b', jar, '-X', 'DELETE', `${url}/tokens/none`), { out: /Cannot find token.* 404/s });
  t.match(await curl('-b', jar, '-X', 'POST', `${url}/logout`), { out: /^ 204 $/ });
  t.match(await curl('-b', jar, `${url}/tokens`), { out: / 401 / }, 'ended');
}); // prettier-ignore

t.test('an expired token, and used-up writes', nightly, async (t) => {
  await until(() => Date.now() > expiresAt, 'the token expires');
  await untilHourLasts(60_000);
  const headers = { 'Fastly-Key': engineer };
  for (let i = 0; i < WRITES; i++) await send(url, '/service', { method: 'POST', headers });
  const [over, lib, used, usedLib, free] = await Promise.all([
    cli(['service', 'list'], short),
    library('fastly', short, [['TokensApi.getTokenCurrent']]),
    cli(['service', 'purge', '--all', '--service-id', 'SVC1'], engineer),
    library('fastly', engineer, [['PurgeApi.purgeAll', { service_id: 'SVC1' }]]),
    cli(['service', 'purge', '--key', 'a', '--service-id', 'SVC1'], engineer),
  ]);
  t.match(over, { code: 1, out: /401 Unauthorized: Token \w{22} expired at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00/ });
  t.match(lib, [{ error: { status: 401, body: { msg: /^Token \w{22} expired at / } } }]);
  t.match(used, { code: 1, out: /429 Too Many Requests.*The hourly limit of writes is reached/ });
  t.match(usedLib, [{ error: { status: 429, body: { msg: 'Too many requests' } } }]);
  t.match(free, { code: 0 }, 'purging by key is not limited');
}); // prettier-ignore

t.test('what the API behind Latchkey received', async (t) => {
  t.ok(api.asked.length > 10);
  t.same(api.asked.filter(({ credentials }) => credentials), [], 'no client credential reached it');
  t.same(api.asked.filter(({ user }) => user === undefined), [], 'every request had an identity');
}); // prettier-ignore

/** Runs two rows at a time: one per core. */
async function eachPair<Row>(rows: readonly Row[], run: (row: Row) => Promise<void>): Promise<void> {
  const left = [...rows];
  const worker = async () => {
    for (let row = left.shift(); row !== undefined; row = left.shift()) await run(row);
  };
  await Promise.all([worker(), worker()]);
}
