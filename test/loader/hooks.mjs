import { readFileSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { bundleAll, bundlePath } from './bundle.mjs';

const TESTS = resolve(import.meta.dirname, '..');

/**
 * Loads a test file in TypeScript as one bundle, for `npx tap`. Its own hooks, which come behind this one, send the text of
 * each module to the thread of the test, for a coverage that is off; so packages are loaded here.
 *
 * @type {import('node:module').LoadHook}
 */
export async function load(url, context, nextLoad) {
  if (url.includes('/node_modules/')) {
    if (context.format !== 'module') return nextLoad(url, context);
    return { format: 'module', source: readFileSync(fileURLToPath(url)), shortCircuit: true };
  }
  if (!url.endsWith('.test.ts')) return nextLoad(url, context);
  const name = relative(TESTS, fileURLToPath(url));
  await bundleAll([{ name, files: [name] }]);
  const source = `import ${JSON.stringify(pathToFileURL(bundlePath(name)).href)};`;
  return { format: 'module', source, shortCircuit: true };
}
