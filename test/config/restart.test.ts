import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadConfigToServe } from '../../src/config/load.js';
import { keepUntilRestart, needsRestart } from '../../src/config/restart.js';
import { selfSigned } from '../helpers/certificates.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { forEachRow } from '../helpers/table.js';

const folder = temporaryFolder(t);
const { cert, key } = selfSigned(folder, 'restart-test');
const ENV = { CERT: cert, LEVEL: 'warn', HOST: '127.0.0.2' };
const PLAIN = 'upstream: http://a\n';
const TLS = `listen: { host: "\${HOST}", tls: { cert: "\${CERT}", key: ${key} } }\n`;
const MUTUAL = `listen: { tls: { cert: ${cert}, key: ${key}, client_ca: ${cert} } }\n`;

function load(text: string) {
  const file = join(folder, 'restart-test.yaml');
  writeFileSync(file, `${PLAIN}${text}`);
  return loadConfigToServe(file, ENV);
}

t.test('which settings take effect only after a restart', async (t) => {
  forEachRow(
    [
      ['', '', []],
      ['', 'log: { level: warn }\nlogin: { max_failures: 7 }', []],
      ['', 'workers: 2\nadmin: { port: 1 }\nlogin: { max_concurrent_hashes: 3 }', ['admin', 'workers', 'login.max_concurrent_hashes']],
      ['', 'decision: {}\nlimits: { head_fields: 50 }\naudit: { to: null }', ['decision', 'limits', 'audit']],
      ['decision: {}', 'decision: { grpc: {} }', ['decision']],
      ['', 'store: { type: lmdb, path: ./other }\ncache: { size: 1 }', ['store', 'cache']],
      ['', TLS, ['listen.host', 'listen.tls']],
      ['', MUTUAL, ['listen.tls', 'listen.tls.client_ca']],
      [MUTUAL, 'listen: {}', ['listen.tls', 'listen.tls.client_ca']],
      [TLS, TLS.replace('${CERT}', cert), []],
    ] as const,
    ([before, next, names]) => t.same(needsRestart(load(next), load(before)), names, next),
  );
}); // prettier-ignore

t.test('a reload keeps those settings and applies the others', async (t) => {
  const before = load(`${TLS}workers: 2\n`);
  const taken = (text: string) => {
    const next = load(text);
    return keepUntilRestart(next, before, needsRestart(next, before));
  };
  const without = taken('log: { level: "${LEVEL}" }\nworkers: 3\n');
  t.same(without.config.listen, before.config.listen);
  t.equal(without.config.workers, 2);
  t.equal(without.config.log.level, 'warn');
  t.same(without.certificate, before.certificate);
  t.same(
    without.written,
    { ...before.written, 'log.level': '${LEVEL}' },
    'each is shown as written in its file',
  );

  const mutual = taken(MUTUAL);
  t.same(mutual.config.listen.tls, before.config.listen.tls, 'TLS is kept as a whole');
  t.same(mutual.certificate, before.certificate);

  const other = taken(TLS.replace('${CERT}', cert));
  t.equal(other.config.listen.tls?.cert, cert);
  t.same(Object.keys(other.written), ['listen.host'], 'another path is shown as it is written now');
});
