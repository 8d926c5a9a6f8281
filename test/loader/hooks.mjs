import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bundleOf } from './bundle.mjs';

/**
 * Loads a test file in TypeScript as one bundle. The hooks of tap, which come behind this one, send the text of each
 * module to the thread of the test, for a coverage that is off; so packages are loaded here.
 *
 * @type {import('node:module').LoadHook}
 */
export async function load(url, context, nextLoad) {
  if (url.includes('/node_modules/')) {
    if (context.format !== 'module') return nextLoad(url, context);
    return { format: 'module', source: readFileSync(fileURLToPath(url)), shortCircuit: true };
  }
  if (!url.endsWith('.ts')) return nextLoad(url, context);
  return { format: 'module', source: await bundleOf(fileURLToPath(url)), shortCircuit: true };
}
