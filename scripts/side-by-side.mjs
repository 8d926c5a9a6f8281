// Runs the commands of its arguments side by side, and shows the output of each when it ends. The exit code is 1 when one
// failed.
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
