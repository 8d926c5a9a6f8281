// Ends the process on a version of Node that is too old, which may not load the program at all.
import { readFileSync } from 'node:fs';

const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

/** @param {string} version as in `process.versions.node`, or after `>=` in `engines.node` */
const parts = (version) => version.replace(/^>=/, '').split('.').map(Number);

/** @param {string} version @param {string} least */
function isOlder(version, least) {
  const [had, needed] = [parts(version), parts(least)];
  const i = needed.findIndex((part, at) => part !== had[at]);
  return i >= 0 && (had[i] ?? 0) < (needed[i] ?? 0);
}

if (isOlder(process.versions.node, engines.node)) {
  console.error(`latchkey: needs Node ${engines.node}, and this is Node ${process.versions.node}`);
  process.exit(1);
}
