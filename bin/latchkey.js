#!/usr/bin/env node
// The installed command. It runs on any version of Node with ES modules, to report what is missing
// if the program itself cannot be loaded.
import { existsSync, readFileSync } from 'node:fs';

const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
const program = new URL('../dist/cli.js', import.meta.url);

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
  process.exitCode = 1;
} else if (existsSync(program)) {
  await import(program.href);
} else {
  console.error('latchkey: not built yet; run "npm run build" first');
  process.exitCode = 1;
}
