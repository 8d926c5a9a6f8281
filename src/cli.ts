#!/usr/bin/env node
import './server/processes/early-signals.js';
import { existsSync } from 'node:fs';
import { Command, CommanderError, type Option } from 'commander';
import { OutputClosed, print, WrongUsage } from './commands/terminal/output.js';
import { accountCommands } from './commands/usage/accounts.js';
import { configurationCommands, mintCommand } from './commands/usage/configuration.js';
import { servingCommands } from './commands/usage/serving.js';
import { ConfigError, formatFault } from './config/fault.js';
import { maskTokens, printable } from './util/text.js';
import { readVersion } from './files/files.js';

const FAILED = 1;
const WRONG_USAGE = 2;
/** What a shell reports for a program that SIGPIPE (13) ended. */
const OUTPUT_CLOSED = 128 + 13;

const program = new Command('latchkey')
  .description('An authentication sidecar: checks API tokens and sessions in front of your HTTP APIs.')
  .version(readVersion())
  .option('--debug', 'show the stack trace of an error')
  .addHelpText('after', '\nRun "latchkey COMMAND --help" for details. Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 141 output not read to its end.'); // prettier-ignore
const groups = {
  Serving: servingCommands(),
  'Configuration and policy': [...configurationCommands(), ...accountCommands()],
  'Tests of your API': [mintCommand()],
};
for (const [name, commands] of Object.entries(groups)) {
  program.commandsGroup(`${name}:`);
  for (const command of commands) program.addCommand(command);
}

/** Applies the shared settings: Commander passes none of them on to added commands. */
function configureCommand(command: Command): void {
  command.exitOverride().configureOutput({
    writeOut: (text) => print(text),
    outputError: (text, write) =>
      write(`${text.trimEnd().replaceAll('\n', ' ')} (see ${pathOf(command)} --help)\n`),
  });
  for (const option of command.options) refuseRepeated(command, option);
  command.commands.forEach(configureCommand);
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

/** Refuses an option that is given twice and takes one value: the first would be lost. */
function refuseRepeated(command: Command, option: Option): void {
  let uses = 0;
  command.on(`option:${option.name()}`, () => {
    uses += 1;
    if (uses > 1 && option.required && !Array.isArray(command.getOptionValue(option.attributeName())))
      command.error(`error: option '${option.flags}' is given more than once, and takes one value`);
  });
}

function requireConfig(_program: Command, command: Command): void {
  if (command.getOptionValueSource('config') !== 'default') return;
  const file = String(command.getOptionValue('config'));
  if (!existsSync(file))
    throw new WrongUsage(`there is no ${file} in this folder; pass the configuration with --config FILE`);
}

function report(error: unknown): number {
  // Commander has already written its own message.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
  if (error instanceof OutputClosed) return OUTPUT_CLOSED;
  if (error instanceof ConfigError) {
    for (const fault of error.faults) process.stderr.write(`${printable(formatFault(fault))}\n`);
  } else {
    const message = error instanceof Error ? error.message.replaceAll('\n', ' ') : String(error);
    process.stderr.write(`latchkey: ${printable(maskTokens(message))}\n`);
  }
  if (program.opts<{ debug?: boolean }>().debug && error instanceof Error)
    process.stderr.write(`${maskTokens(error.stack ?? '')}\n`);
  return error instanceof WrongUsage ? WRONG_USAGE : FAILED;
}

// The exit code says enough when standard error cannot be written either.
process.stderr.on('error', () => undefined);
configureCommand(program);
program.hook('preAction', requireConfig);
try {
  await program.parseAsync(process.argv);
} catch (error) {
  process.exitCode = report(error);
  // A failed start may have left a store or a listener open.
  if (process.exitCode !== 0) process.exit();
}
