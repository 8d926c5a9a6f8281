#!/usr/bin/env node
// The installed command. It runs on any version of Node with ES modules, to report what is missing
// if the program itself cannot be loaded.
import './supported-node.js';
import { existsSync } from 'node:fs';

const program = new URL('../dist/cli.js', import.meta.url);
const signals = new URL('../dist/server/processes/early-signals.js', import.meta.url);

if (existsSync(program)) {
  // Loading the program takes much longer.
  await import(signals.href);
  await import(program.href);
} else {
  console.error('latchkey: not built yet; run "npm run build" first');
  process.exitCode = 1;
}
