import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parseDocument } from 'yaml';
import { accepts } from '../config/accepts.js';
import { FULL, placesOf } from '../config/mutations.js';
import { start, temporaryFolder } from '../helpers/latchkey.js';

/*
 * A configuration that `check` accepts also starts under `serve`: both use the same parsing and the
 * same checks after it.
 */

const folder = temporaryFolder(t);
const file = join(folder, 'latchkey.yaml');
mkdirSync(join(folder, 'folder'));
writeFileSync(join(folder, 'file'), 'no certificate');

const isAccepted = (text: string): boolean => accepts(file, text);

/** Values at the limits of each type of setting. */
const EDGES = [
  '0', '1', '65535', '1000000', '0ms', '1ms', '24d', '25d', '999999999d', '1KiB', '1MiB', '1GiB', 'null', 'true', 'false', 'auto', 'a', '""',
  '"a:1"', '"a:99999"', '"[::1]"', '"::"', '"fe80::1%lo"', '"0.0.0.0/0"', '"10.0.0.0/33"', '"::/128"', './folder', './file', './none/x', './new', '/',
  '"http://[::1]:0/"', '"http://a:b@c"', '"https://a.example/é"', '"redis://:a/b@h"', '"redis://u:p%40@[::1]:1/2"', '"rediss://127.0.0.1:1"',
  '"http://h?x"', 'kong', 'stdout', '[]', '[ "127.0.0.1:1" ]', '"%zz"', '"\\u00e9"', 'ES256', 'deny', 'none', 'all', 'error', '"/%C3%A9/*"', '"*"',
]; // prettier-ignore

/** One in SHARE values is tried for each setting, and RUNS configurations are started. */
const SHARE = 1;
const RUNS = 50;

/**
 * Settings that depend on the machine: ports in use, missing addresses, one worker for each core.
 */
function isAboutMachine(path: string, value: unknown): boolean {
  if (path.endsWith('.host') && /^(listen|admin|decision)/.test(path))
    return !['::1', '::'].includes(String(value));
  return /\.port$|^workers$|^store\.path$|^audit\.to$/.test(path);
}
t.test('starts with each accepted configuration of edge values', async (t) => {
  const accepted = new Map<string, unknown[]>();
  const leaves = placesOf(FULL).filter(({ value }) => value !== undefined);
  for (const [i, place] of leaves.entries())
    for (const [j, edge] of EDGES.entries())
      if ((i + j) % SHARE === 0 && isAccepted(place.with(edge))) {
        const value = parseDocument(edge).toJS() as unknown;
        accepted.set(place.path, [...(accepted.get(place.path) ?? []), value]);
      }
  t.ok(accepted.size > 50, `${accepted.size} settings accept some of them`);
  // Combines values that were accepted one by one; omits those that contradict another.
  let started = 0;
  for (let i = 0; i < RUNS; i++) {
    let document = FULL;
    for (const [path, values] of accepted) {
      const value = values[i % values.length];
      if (isAboutMachine(path, value)) continue;
      const next = parseDocument(document);
      next.setIn(
        path.split('.').map((step) => (/^\d+$/.test(step) ? Number(step) : step)),
        value,
      );
      if (isAccepted(String(next))) document = String(next);
    }
    const config = join(folder, `edge-${i}.yaml`);
    writeFileSync(config, document);
    const server = await start(t, config).catch((error: unknown) => t.fail(`${String(error)}\n${document}`));
    if (typeof server !== 'object' || server === null || !('stop' in server)) continue;
    started += 1;
    await server.stop('SIGKILL');
  }
  t.equal(started, RUNS);
}); // prettier-ignore
