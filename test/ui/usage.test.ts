import t from 'tap';
import { parse } from 'yaml';
import { type Program, PROGRAMS, usageOf } from '../../src/ui/usage.js';

const SECRET = 'lkSecret';
const settings = {
  key_field: 'Acme-Key',
  accepts: { bearer: true, basic: true },
  public_url: 'https://api.example:8443',
};
const PAGE = 'http://127.0.0.1:8080';

const shown = (program: Program, more: Partial<typeof settings> | { public_url: null } = {}) =>
  usageOf(program, SECRET, { ...settings, ...more }, PAGE)?.text;
const none = { accepts: { bearer: false, basic: false } };

t.test('each program gets the address and the secret', async (t) => {
  for (const program of PROGRAMS) {
    const text = shown(program) ?? '';
    t.ok(text.includes('api.example:8443') && text.includes(SECRET), text);
    t.ok(
      shown(program, { public_url: null })?.includes('127.0.0.1:8080'),
      'the origin of the page otherwise',
    );
  }
  t.equal(shown('curl'), `curl -H 'Acme-Key: ${SECRET}' https://api.example:8443/tokens/self`);
  t.equal(shown('git'), `git clone https://token:${SECRET}@api.example:8443/REPOSITORY.git`);
  t.equal(shown('npm'), `registry=https://api.example:8443/\n//api.example:8443/:_authToken=${SECRET}`);
  const job = { job_name: 'api', scheme: 'https', static_configs: [{ targets: ['api.example:8443'] }] };
  t.same(parse(shown('Prometheus') ?? ''), {
    scrape_configs: [{ ...job, authorization: { credentials: SECRET } }],
  });
  t.same(JSON.parse(shown('an MCP client') ?? ''), {
    mcpServers: {
      api: {
        type: 'http',
        url: 'https://api.example:8443/mcp',
        headers: { Authorization: `Bearer ${SECRET}` },
      },
    },
  });
});

t.test('what the configuration does not accept is replaced, or not shown', async (t) => {
  const noPasswords = PROGRAMS.filter((each) => shown(each, { accepts: { bearer: true, basic: false } }) === undefined);
  t.same(noPasswords, ['git', 'Docker', 'pip']);
  t.match(shown('npm', { accepts: { bearer: false, basic: true } }), `:_auth=${btoa(`token:${SECRET}`)}`);
  t.same(PROGRAMS.filter((each) => shown(each, none) === undefined), ['git', 'Docker', 'npm', 'pip']);
  t.same(parse(shown('Prometheus', none) ?? '').scrape_configs[0].http_headers, { 'Acme-Key': { secrets: [SECRET] } });
  t.same(JSON.parse(shown('an MCP client', none) ?? '').mcpServers.api.headers, { 'Acme-Key': SECRET });
}); // prettier-ignore
