#!/usr/bin/env node
// The installed command. It runs on any version of Node with ES modules, to report what is missing
// if the program itself cannot be loaded.
import './supported-node.js';
import { existsSync } from 'node:fs';

if (existsSync(new URL('../dist/program/latchkey.cjs', import.meta.url))) {
  const { start } = await import('./program.js');
  await start();
} else {
  console.error('latchkey: not built yet; run "npm run build" first');
  process.exitCode = 1;
}
