// Runs the commands in its arguments in parallel, and prints the output of each when it ends. The
// exit code is 1 if one failed.
import '../bin/supported-node.js';
import { exec } from 'node:child_process';

/** @param {string} command */
const run = (command) =>
  new Promise((done) => {
    exec(command, { maxBuffer: Infinity }, (error, stdout, stderr) => {
      process.stdout.write(stdout);
      process.stderr.write(stderr);
      if (error !== null) process.exitCode = 1;
      done(undefined);
    });
  });

await Promise.all(process.argv.slice(2).map(run));
