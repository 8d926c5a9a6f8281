import { fileURLToPath } from 'node:url';
import { bundleOf } from './bundle.mjs';

/** Loads a test file in TypeScript as one bundle. */
export async function load(url, context, nextLoad) {
  if (!url.endsWith('.ts') || url.includes('/node_modules/')) return nextLoad(url, context);
  return { format: 'module', source: await bundleOf(fileURLToPath(url)), shortCircuit: true };
}
