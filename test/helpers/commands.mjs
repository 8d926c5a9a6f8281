// Runs commands one after another in one process. Most of a command's time goes into starting a
// process and loading the program, which only the first one does here. `latchkey.ts` starts it and
// sends it the arguments of each command.
import fs, { readdirSync, readlinkSync } from 'node:fs';
import { createRequire, syncBuiltinESMExports } from 'node:module';

const cli = process.argv[2] ?? '';
/** @type {{ run: () => Promise<void> }} */
const program = createRequire(import.meta.url)(cli);
const EXIT = Symbol('exit');

/** Returns the files and connections that this process has open. */
function opened() {
  return readdirSync('/proc/self/fd').flatMap((descriptor) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${descriptor}`);
      return /^(?:\/(?!dev|proc)|socket:)/.test(target) ? [target] : [];
    } catch {
      return []; // the descriptor of the listing itself
    }
  });
}

function exitCode() {
  return process.exitCode ?? 0;
}

/** @param {string[]} args */
async function run(args) {
  const written = { stdout: '', stderr: '' };
  process.stderr.write = (/** @type {string | Uint8Array} */ text) => {
    written.stderr += String(text);
    return true;
  };
  fs.writeSync = /** @type {typeof fs.writeSync} */ (
    (/** @type {number} */ file, /** @type {Uint8Array} */ bytes) => {
      if (file !== 1) return writeSync(file, bytes);
      written.stdout += Buffer.from(bytes).toString();
      return bytes.length;
    }
  );
  syncBuiltinESMExports();
  process.argv = [process.execPath, cli, ...args];
  process.exitCode = undefined;
  try {
    await program.run();
  } catch (error) {
    if (error !== EXIT) throw error;
  }
  // Each run of the program adds its own.
  process.stderr.removeAllListeners('error');
  process.removeAllListeners('SIGUSR1');
  return { code: exitCode(), ...written };
}

const { writeSync } = fs;
const exit = process.exit.bind(process);
process.exit = () => {
  throw EXIT;
};
const before = new Set(opened());
/** @param {string[]} args */
async function answer(args) {
  const result = await run(args);
  process.exitCode = 0;
  // If a command left something open, the process has to end.
  const ends = opened().some((target) => !before.has(target));
  process.send?.({ ...result, ends }, () => {
    if (ends) exit();
  });
}

process.on('message', (/** @type {string[]} */ args) => void answer(args));
