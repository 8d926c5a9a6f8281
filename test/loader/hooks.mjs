import { readFileSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { bundleAll, bundlePath } from './bundle.mjs';

const TESTS = resolve(import.meta.dirname, '..');

/**
 * Loads a TypeScript test file as one bundle, for `npx tap`. tap's own hooks, which run after this
 * one, send the text of each module to the test's thread for coverage, which is off. Loading
 * packages here avoids that.
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
