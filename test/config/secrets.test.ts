import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadDirectory } from '../../src/config/directory.js';
import { ConfigError, formatFault } from '../../src/config/fault.js';
import { loadConfigToServe } from '../../src/config/load.js';
import { maskSecrets } from '../../src/config/mask.js';
import { below, hasSecretPathAt, isSecret, layersOf, secretKeys } from '../../src/config/schema-walk.js';
import { configSchema } from '../../src/config/schema/config.js';
import { directorySchema } from '../../src/config/schema/directory-file.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { forEachRow } from '../helpers/table.js';
import { DIRECTORY, FULL, type Place, placesOf } from './mutations.js';

/*
 * A secret anywhere in a configuration or a directory, in a right or a wrong place, literal or
 * expanded, appears in no fault and in no printed configuration.
 */

const folder = temporaryFolder(t);
const file = join(folder, 'secret-test.yaml');
const CANARY = 'zq7canary4xw9';
const HEX = 'c0ffee00c0ffee11c0ffee22c0ffee33c0ffee44c0ffee55c0ffee66c0ffee77';
const NUMBER = '57351';
const ENV = {
  CANARY,
  HEX,
  NUMBER,
  UPPER: CANARY.toUpperCase(),
  HOST: `${CANARY}.example`,
  PLAIN: 'a.example',
  URL: `http://${CANARY}.example/`,
};
writeFileSync(join(folder, 'canary'), `${CANARY}\n`);
const SECRETS = [CANARY, HEX, NUMBER, CANARY.slice(2), CANARY.slice(0, -2)];

/** Returns the faults of a changed file, or its printed configuration. */
function told(text: string, load: (file: string) => string): string {
  // Creates a new file each time: overwriting one flushes it to disk on some file systems.
  rmSync(file, { force: true });
  writeFileSync(file, text, { mode: 0o600 });
  try {
    return load(file);
  } catch (error) {
    if (error instanceof ConfigError) return error.faults.map(formatFault).join('\n');
    return `${error instanceof Error ? error.stack : String(error)}`;
  }
}

const showConfig = (name: string) => JSON.stringify(maskSecrets(loadConfigToServe(name, ENV)));
const showDirectory = (name: string) => {
  loadDirectory(name, ENV, { roles: ['superuser'], scopes: ['global'], maxLifetime: null });
  return '';
};

/** Ways to write the canary at a place. */
const WRITTEN: Record<string, (place: Place) => string> = {
  'as text': () => CANARY,
  'in a list': () => `[ ${CANARY} ]`,
  'in lists': () => `[[${CANARY}], {a: ${CANARY}}]`,
  'in a mapping': () => `{ a: ${CANARY} }`,
  'as hexadecimal digits': () => HEX,
  'in a query': () => `"http://a.example/?api_key=${CANARY}"`,
  'as userinfo': () => `"https://user:${CANARY}@a.example/"`,
  'as userinfo with a slash': () => `"redis://:${CANARY}/${CANARY}@a.example"`,
  'as a fragment': () => `"https://a.example/#${CANARY}"`,
  'as userinfo beside a variable': () => `"redis://app:${CANARY}@\${PLAIN}:6379/0"`,
  'in a query beside a variable': () => `"http://\${PLAIN}/?apikey=${CANARY}"`,
  'in a path': () => `"https://a.example/services/${CANARY}"`,
  'in a path without slashes before it': () => `"https:a.example/${CANARY}"`,
  'in a path beside a variable': () => `"https://a.example/${CANARY}/\${PLAIN}"`,
  'as a default': () => `"\${NONE:-${CANARY}}"`,
  'as userinfo in a default': () => `"\${NONE:-https://user:${CANARY}@a.example/}"`,
  'as a list in a default': () => `"\${NONE:-a,${CANARY}:}"`,
  'as a tag': () => `!${CANARY} x`,
  'after a bad escape': () => `"\\x${CANARY}"`,
  'after another bad escape': () => `"\\${CANARY}"`,
  'as an alias': () => `*${CANARY}`,
  'after a closed string': () => `"a" ${CANARY}`,
  'in a list that does not end': () => `[ ${CANARY}`,
  'as a block': () => `|${CANARY}`,
};
const EXPANDED: Record<string, (place: Place) => string> = {
  'by environment': () => '${CANARY}',
  'by environment, in quotes': () => '"${CANARY}"',
  'by file': () => '"${file:canary}"',
  'a number': () => '${NUMBER}',
  'hexadecimal digits': () => '${HEX}',
  'in capitals': () => '${UPPER}',
  'a URL': () => '${URL}',
  'after the original value': ({ value }) =>
    JSON.stringify(`${typeof value === 'string' ? value : 'a'}\${CANARY}`),
  'as a segment': () => '"/${CANARY}/*"',
  'as segments that do not fit': () => '"/${CANARY}//x*/:${CANARY}/:${CANARY}"',
  'in a list': () => '[ "${CANARY}" ]',
  'in lists': () => '[ ["${CANARY}"], { a: "${CANARY}" } ]',
  'in a mapping': () => '{ a: "${CANARY}" }',
};

/**
 * Whether a way is tried at a place. In the suite, a place that is no secret has some of the ways;
 * places of one kind have all of them together. `npm run fuzz:properties` tries every way everywhere.
 */
function isTried(place: number, way: number): boolean {
  return process.env['FC_RUNS'] === 'full' || (place + way) % 13 === 0;
}

function holdsNone(text: string, about: string): string | undefined {
  const lower = text.toLowerCase();
  const found = SECRETS.find((secret) => lower.includes(secret));
  return found === undefined ? undefined : `${about} tells ${found}: ${text.slice(0, 2_000)}`;
}

t.test('no secret in a fault of a configuration or in a printed configuration', async (t) => {
  const places = placesOf(FULL);
  t.ok(places.length > 150, `${places.length} places`);
  t.equal(told(FULL, showConfig).startsWith('{'), true, 'as it is, it is accepted');
  const leaks: string[] = [];
  let shown = 0;
  for (const [i, place] of places.entries()) {
    const path = place.path.split('.');
    const isSecretPlace = isSecret(configSchema, path) || hasSecretPathAt(path.reduce(below, layersOf(configSchema)));
    for (const [j, [how, write]] of Object.entries(EXPANDED).entries()) {
      if (!isSecretPlace && !isTried(i, j)) continue;
      const said = told(place.with(write(place)), showConfig);
      if (said.startsWith('{')) shown += 1;
      leaks.push(...[holdsNone(said, `${place.path} ${how}`)].filter((leak) => leak !== undefined));
    }
    for (const [j, [how, write]] of Object.entries(WRITTEN).entries()) {
      if (!isSecretPlace && !isTried(i, j)) continue;
      const said = told(place.with(write(place)), showConfig);
      // Where it is accepted, a value may be printed if it is neither a secret by the schema nor in
      // the secret part of a URL.
      const mayBeShown =
        said.startsWith('{') && !isSecretPlace && !/^"(?:\$\{NONE:-)?[a-z]+:\/\/.*[?@#]/.test(write(place));
      if (mayBeShown) shown += 1;
      else leaks.push(...[holdsNone(said, `${place.path} ${how}`)].filter((leak) => leak !== undefined));
    }
  }
  t.same(leaks.slice(0, 20), [], `${leaks.length} leaks`);
  t.ok(shown > 40, `${shown} were accepted`);
}); // prettier-ignore

t.test('no secret in a fault of a directory', async (t) => {
  const leaks: string[] = [];
  t.equal(told(DIRECTORY, showDirectory), '', 'as it is, it is accepted');
  const secrets = secretKeys(directorySchema);
  for (const [i, place] of placesOf(DIRECTORY).entries())
    for (const [j, [how, write]] of Object.entries({ ...WRITTEN, ...EXPANDED }).entries()) {
      if (!secrets.includes(place.path.split('.').at(-1) ?? '') && !isTried(i, j)) continue;
      const said = told(place.with(write(place)), showDirectory);
      leaks.push(...[holdsNone(said, `${place.path} ${how}`)].filter((leak) => leak !== undefined));
    }
  t.same(leaks.slice(0, 20), [], `${leaks.length} leaks`);
});

t.test('faults about several expanded places', async (t) => {
  const up = 'upstream: http://a\n';
  forEachRow(
    [
      `${up}routes:\n  - { path: "/\${CANARY}", action: a }\n  - { path: "/\${CANARY}", action: b }`,
      `${up}routes:\n  - { path: "/\${CANARY}/:x/c", action: a }\n  - { path: "/\${CANARY}/b/:y", action: b }`,
      `${up}routes:\n  - { path: "/:\${CANARY}", action: a, service: \${CANARY}x }`,
      `${up}routes:\n  - { path: "/a", action: "\${CANARY}", methods: [POST] }\npolicy: { roles: { r: { allow: ["*:read"] } } }`,
      `${up}policy: { roles: { r: { allow: ["*"], deny: ["\${CANARY}x:read"] } } }\nroutes: [{ path: /a, action: "\${CANARY}" }]`,
      `${up}identity: { headers: { role: "\${CANARY}", login: "\${CANARY}" } }`,
      'upstreams: { api: { urls: ["${URL}", "${URL}x"] } }',
      'upstreams: { api: { url: "${URL}", tls: { ca: "${CANARY}", cert: "${file:canary}", key: "/${CANARY}" } } }',
      `${up}listen: { tls: { cert: "\${CANARY}", key: "\${file:canary}", client_ca: "/\${CANARY}" } }`,
      `${up}store: { type: redis, url: "redis://a", tls: { ca: "\${CANARY}", cert: "\${file:canary}", key: x } }`,
      `${up}audit: { to: "/\${CANARY}/a" }`,
      `${up}store: { type: "\${CANARY}" }`,
      `${up}workers: \${NUMBER}`,
      '%zq7canary4xw9\n---\na: 1',
      `${up}%zq7canary4xw9`,
    ],
    (text) => {
      const said = told(text, showConfig);
      t.notOk(said.startsWith('{'), `is refused: ${text}`);
      t.equal(holdsNone(said, text), undefined, said);
    },
  );
});

t.test('a printed configuration shows what the file says', async (t) => {
  const store = 'store:\n  type: redis\n  url: redis://me:pw@h\n  password: a\n  sealing_key: ${HEX}\n';
  const said = told(`upstream: \${URL}\n${store}admin:\n  port: \${NUMBER}\n`, showConfig);
  t.match(JSON.parse(said), {
    upstreams: { api: { url: '${URL}' } },
    store: { url: 'redis://***:***@h', password: '***', sealing_key: '***' },
    admin: { port: '${NUMBER}' },
  });
  const sentinel = 'sentinel: { master: m, nodes: ["h:1"], password: a }';
  t.match(JSON.parse(told(`upstream: \${URL}\nstore: { type: redis, ${sentinel} }\n`, showConfig)), {
    store: { sentinel: { master: 'm', password: '***' } },
  });
});

t.test('a directory expands secrets only', async (t) => {
  const names = ['password_hash', 'password', 'otp_secret', 'key', 'key_sha256', 'secret_sha256'];
  t.same(secretKeys(directorySchema).toSorted(), names.toSorted());
  t.same(secretKeys(configSchema).toSorted(), ['client_secret', 'password', 'sealing_key', 'secret']);
  for (const { path, value, with: put } of placesOf(DIRECTORY)) {
    if (typeof value !== 'string') continue;
    const key = path.split('.').at(-1) ?? '';
    const said = told(put('"${CANARY}"'), showDirectory);
    if (names.includes(key)) t.notMatch(said, /is expanded in/, path);
    else t.match(said, new RegExp(`${path}: "\\$\\{\\.\\.\\.\\}" is expanded in .* only; write "\\$\\$\\{\\.\\.\\.\\}"`), path);
  }
  const [name] = placesOf(DIRECTORY).filter(({ path }) => path === 'users.0.name');
  writeFileSync(file, name?.with('"a $${CANARY} b ${"') ?? '');
  chmodSync(file, 0o600);
  t.equal(loadDirectory(file, ENV).users[0]?.name, 'a ${CANARY} b ${', '$$ stands for $');
  const [password] = placesOf(DIRECTORY).filter(({ path }) => path === 'users.1.password');
  writeFileSync(file, password?.with('"${file:canary}"') ?? '');
  t.equal(loadDirectory(file, ENV).users[1]?.password, CANARY);
}); // prettier-ignore
