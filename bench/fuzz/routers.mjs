#!/usr/bin/env node
// Compares Latchkey's decisions with the handlers of real routers. See `--help`.
import { parseArgs } from 'node:util';
import { run } from '../lib/processes.mjs';
import { createRandom } from './random.mjs';
import { compare, oddTarget } from './routers/compare.mjs';
import { ROUTES, startRouters } from './routers/routers.mjs';

const BATCH = 500;
const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '20000' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`npm run fuzz:routers -- [options]     (builds first)

Oddly spelled targets, judged by Latchkey and served by Express, Koa, Fastify, Hono, node:http, Flask, aiohttp and PHP. The handler
that serves a target must be the one that its rule is about.

  --count N     targets (20000)
  --seed N      repeats the targets of a run (random; it is printed)
`);
  process.exit(0);
}
/** @import { Judged } from './routers/compare.mjs' */

/** @param {string} text */
const say = (text) => process.stdout.write(`${text}\n`);

/** @param {string} file of the build */
const built = (file) => import(new URL(`../../dist/${file}`, import.meta.url).href);

/**
 * Returns Latchkey's judgement of targets by {@link ROUTES}.
 *
 * @returns {Promise<(target: string) => Judged | null>} null: refused
 */
async function createJudge() {
  const [{ parseTarget }, { Router }] = [await built('domain/path.js'), await built('policy/routes.js')];
  const router = new Router(ROUTES, { action: 'other' });
  return (target) => {
    const parsed = parseTarget(target);
    if (typeof parsed === 'string') return null;
    const match = router.find('GET', parsed.path, parsed.readings);
    if (typeof match === 'string') return null;
    const { route, path } = match;
    return {
      tag: route.auth === 'none' ? 'open' : route.readAction.replace(':read', ''),
      sid: route.service === null ? null : path.split('/')[2],
    };
  };
}

await run(async () => {
  const judge = await createJudge();
  const { routers, stop } = await startRouters();
  const random = createRandom(Number(values.seed));
  let forwarded = 0;
  for (let left = Number(values.count); left > 0; left -= BATCH) {
    const targets = Array.from({ length: Math.min(BATCH, left) }, () => oddTarget(random));
    const compared = await compare(judge, routers, targets);
    forwarded += compared.forwarded;
    for (const each of compared.differences) say(`FOUND ${each}`);
    if (compared.differences.length > 0) process.exitCode = 1;
  }
  stop();
  say(`${values.count} targets (seed ${values.seed}), ${forwarded} forwarded, ${routers.length} routers`);
});
