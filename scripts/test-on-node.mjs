#!/usr/bin/env node
// Runs the tests on another version of Node: npm run test:node -- 26 [files]. The version comes
// from the npm registry.
import { spawnSync } from 'node:child_process';
import { delimiter } from 'node:path';
import { needNode } from '../test/helpers/node-version.mjs';

const [version = '', ...files] = process.argv.slice(2);
let bin;
try {
  bin = needNode(version);
} catch (error) {
  process.stderr.write(
    `${error instanceof Error ? error.message : String(error)}\nusage: npm run test:node -- VERSION [TEST FILES]\n`,
  );
  process.exit(2);
}
// First in the path, so that the test runner and all of its child processes use this version.
/** @type {NodeJS.ProcessEnv} */
const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` };
for (const name of ['npm_node_execpath', 'NODE']) delete env[name];
const node = spawnSync('node', ['--version'], { env, encoding: 'utf8' }).stdout.trim();
process.stdout.write(`tests on Node ${node}\n`);
const [program, args] = files.length === 0 ? ['npm', ['test']] : ['node', ['test/loader/run.mjs', ...files]];
process.exitCode = spawnSync(program, args, { env, stdio: 'inherit' }).status ?? 1;
