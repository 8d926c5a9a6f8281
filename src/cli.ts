#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import { check } from './commands/check.js';
import { demo, type DemoOptions } from './commands/demo.js';
import { hashPassword } from './commands/hash-password.js';
import { healthcheck } from './commands/healthcheck.js';
import { schema } from './commands/schema.js';
import { serve } from './commands/serve.js';
import { ConfigError, formatFault } from './config/fault.js';

const FAILED = 1;
const WRONG_USAGE = 2;

function version(): string {
  const file = new URL('../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

const configOption = () =>
  new Option('--config <file>', 'the configuration file (YAML)').makeOptionMandatory();

const program = new Command('latchkey')
  .description('An authentication sidecar: checks API tokens and sessions in front of your HTTP APIs.')
  .version(version())
  .option('--debug', 'show the stack trace of an error')
  .exitOverride()
  .showHelpAfterError('(latchkey --help lists the commands)');

program.command('serve').description('serve with a configuration').addOption(configOption()).action(serve);

program
  .command('demo')
  .description('serve with users to try it out, and print curl lines to try it with')
  .option('--upstream <url>', 'the API to guard (default: a built-in one that shows what it receives)')
  .option('--port <number>', 'the port to listen on', '8080')
  .option('--data <dir>', 'where users, passwords and tokens are kept', 'data/demo')
  .action((options: DemoOptions) => demo(options));

program
  .command('check')
  .description('validate a configuration and print each fault as FILE:LINE:COLUMN: message')
  .addOption(configOption())
  .action((options: { config: string }) => {
    process.exitCode = check(options);
  });

program
  .command('schema')
  .description('print the JSON Schema of a file, for editors')
  .argument('[kind]', 'config or directory', 'config')
  .action((kind: string) => {
    if (kind !== 'config' && kind !== 'directory') {
      throw new CommanderError(
        WRONG_USAGE,
        'latchkey.kind',
        `schema: expected config or directory, got ${kind}`,
      );
    }
    schema(kind);
  });

program
  .command('hash-password')
  .description('print the password_hash of a directory file; asks for the password')
  .option('--password-file <file>', 'read the password from a file, or - for standard input')
  .action(hashPassword);

program
  .command('healthcheck')
  .description('exit with 0 when the server that runs with this configuration is ready')
  .addOption(configOption())
  .action(healthcheck);

/** Errors are lines for a person; a stack trace only with --debug. */
function report(error: unknown): number {
  if (error instanceof CommanderError) {
    // Commander wrote its own message already, save for ours.
    if (error.code.startsWith('latchkey.')) process.stderr.write(`latchkey: ${error.message}\n`);
    return error.exitCode === 0 ? 0 : WRONG_USAGE;
  }
  if (error instanceof ConfigError) {
    for (const fault of error.faults) process.stderr.write(`${formatFault(fault)}\n`);
  } else {
    process.stderr.write(`latchkey: ${describe(error)}\n`);
  }
  if (program.opts<{ debug?: boolean }>().debug && error instanceof Error)
    process.stderr.write(`${error.stack}\n`);
  return FAILED;
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, port } = error as NodeJS.ErrnoException & { port?: number };
  if (code === 'EADDRINUSE') return `port ${port} is in use already; choose another, or 0 for a free one`;
  if (code === 'EACCES' && port !== undefined)
    return `port ${port} may not be opened by this user; choose one above 1023`;
  return error.message.replaceAll('\n', ' ');
}

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
  // A failed start may have left a store or a listener open.
  if (process.exitCode !== 0) process.exit();
}
