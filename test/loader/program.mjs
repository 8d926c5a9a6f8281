// Prepares the program that tests start: what the build made, with cheaper passwords, and with the
// code that V8 compiles for it. The suite starts hundreds of them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { evaluate, load, PROGRAM as BUILT } from '../../bin/program.js';

/** @import { Evaluate } from '../../bin/program.js' */

const ROOT = resolve(import.meta.dirname, '../..');
const LOADER = pathToFileURL(join(ROOT, 'bin/program.js')).href;
const FOLDER = join(ROOT, 'node_modules/.cache/tests/program');
/** Age of unused builds, in milliseconds; longer than a run of the suite. */
const UNUSED_MS = 3_600_000;

/** @type {string | undefined} */
let folder;

/** Returns the path of the program. {@link prepareProgram} has made it. */
export function programOf() {
  return join(folderOf(), 'start.mjs');
}

/** @type {Map<string, Evaluate>} */
const evaluators = new Map();

/**
 * Evaluates the program anew.
 *
 * @param {(name: string) => unknown} require
 * @param {readonly unknown[]} globals see PARAMETERS of bin/program.js
 */
export function evaluateProgram(require, globals) {
  return evaluate(
    (id) => {
      let evaluator = evaluators.get(id);
      if (evaluator === undefined) {
        evaluator = load(join(folderOf(), id), 'serve').evaluate;
        if (id === './schemas.cjs') evaluator = shared(evaluator);
        evaluators.set(id, evaluator);
      }
      return evaluator;
    },
    require,
    globals,
  );
}

/**
 * Lets all programs share the schemas, which have no state and take half of a start.
 *
 * @param {Evaluate} evaluator
 * @returns {Evaluate}
 */
function shared(evaluator) {
  /** @type {{ exports: unknown } | undefined} */
  let first;
  return (own, module, ...rest) => {
    const made = /** @type {{ exports: unknown }} */ (module);
    if (first === undefined) evaluator(own, made, ...rest);
    first ??= made;
    made.exports = first.exports;
  };
}

/** Each build has a folder of its own: running tests may still start an earlier one. */
function folderOf() {
  if (folder !== undefined) return folder;
  const { mtimeMs, size } = statSync(join(BUILT, 'latchkey.cjs'), { throwIfNoEntry: false }) ?? {};
  if (mtimeMs === undefined) throw new Error('no program to test: run "npm run build" first');
  folder = join(FOLDER, `${Math.round(mtimeMs)}-${size}`);
  return folder;
}

/** Makes the program of the latest build, unless it was made. @throws Error if its sources have changed since */
export async function prepareProgram() {
  const made = folderOf();
  const { mtimeMs } = statSync(join(BUILT, 'latchkey.cjs'));
  const names = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' });
  const newer = names.find((name) => statSync(join(ROOT, 'src', name)).mtimeMs > mtimeMs);
  if (newer !== undefined)
    throw new Error(`src/${newer} is newer than the program to test: run "npm run build"`);
  if (!existsSync(made)) make(made);
  if (!readdirSync(made).some((name) => name.includes(`-serve-${process.version}-`))) await compile(made);
}

/** @param {string} made */
function make(made) {
  const unfinished = `${made}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  for (const name of readdirSync(BUILT)) {
    const text = readFileSync(join(BUILT, name), 'latin1');
    if (/\.(?:cjs|mjs)$/.test(name)) writeFileSync(join(unfinished, name), name === 'latchkey.cjs' ? cheapened(text) : text, 'latin1');
  }
  writeFileSync(join(unfinished, 'start.mjs'), `import { start } from ${JSON.stringify(LOADER)};\nawait start(import.meta.dirname);\n`);
  renameSync(unfinished, made);
  for (const name of readdirSync(FOLDER)) {
    const other = join(FOLDER, name);
    if (statSync(other).mtimeMs < Date.now() - UNUSED_MS) rmSync(other, { recursive: true, force: true });
  }
} // prettier-ignore

/**
 * Reduces the memory of a password hash from 46 MiB to 1 MiB, as in the directories of the tests:
 * the suite logs in thousands of times. Tests of the cost start the installed program.
 *
 * @param {string} text
 */
function cheapened(text) {
  const cheaper = text.replace('{memoryCost:47104,timeCost:1}', '{memoryCost:1024,timeCost:1}');
  if (cheaper === text) throw new Error('the program has another cost of passwords');
  return cheaper;
}

/**
 * Runs a server through start, one request and stop, which keeps the code that V8 compiled for it.
 *
 * @param {string} made
 */
async function compile(made) {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-compile-'));
  try {
    const config = join(folder, 'latchkey.yaml');
    writeFileSync(config, 'listen: { port: 0 }\nadmin: { port: 0 }\nupstream: http://127.0.0.1:1\ndirectory: { file: users.yaml }\n');
    writeFileSync(join(folder, 'users.yaml'), 'customers: [{ id: C, name: C }]\nusers: []\n', { mode: 0o600 });
    const args = [join(made, 'start.mjs'), 'serve', '--config', config];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(child, 'exit');
    for await (const line of createInterface(child.stdout)) {
      if (!line.includes('"msg":"ready"')) continue;
      await fetch(`${JSON.parse(line).listen}/tokens/self`, { headers: { 'service-key': 'none' } });
      child.kill();
    }
    const [code] = await ended;
    if (code !== 0) throw new Error(`the program to compile ended with ${code}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
} // prettier-ignore
