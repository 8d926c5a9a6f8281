import { Command, InvalidArgumentError } from 'commander';
import { configOption, jsonOption, type ReportOptions, urlFault } from '../terminal/options.js';
import type { DemoOptions } from '../demo.js';

const MAX_PORT = 65_535;

export function serveCommand(): Command {
  return new Command('serve')
    .description('start the server; SIGTERM stops it, SIGHUP reloads')
    .addOption(configOption())
    .action(async (options: { config: string }) => (await import('../serve.js')).serve(options));
}

export function demoCommand(): Command {
  return new Command('demo')
    .description('start a server with sample users, and print curl commands to try')
    .option(
      '--upstream <url>',
      'the API to protect (default: a built-in one that shows what it receives)',
      url,
    )
    .option('--port <number>', 'the port to listen on', port, '8080')
    .option('--data <dir>', 'the folder for users, passwords and tokens, readable only by you', 'data/demo')
    .action(async (options: DemoOptions) => (await import('../demo.js')).demo(options));
}

function url(text: string): string {
  if (/^https?:\/\/[^/?#@]+$/.test(text) && URL.canParse(text)) return text;
  throw urlFault(text, 'Expected a URL like http://127.0.0.1:3000.');
}

function port(text: string): string {
  if (/^\d{1,5}$/.test(text) && Number(text) <= MAX_PORT) return text;
  throw new InvalidArgumentError(`Expected a number from 0 to ${MAX_PORT}; 0 picks a free port.`);
}

export function healthcheckCommand(): Command {
  return new Command('healthcheck')
    .description('exit with 0 if the server of this configuration is ready')
    .addOption(configOption())
    .action(async (options: { config: string }) => (await import('../healthcheck.js')).healthcheck(options));
}

export function fleetCommand(): Command {
  return new Command('fleet')
    .description('list the sidecars that are up, by their heartbeats in the store')
    .addOption(configOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
HEARTBEAT is how long ago a sidecar wrote its last heartbeat; after 12 seconds without one it is
not listed. LAG is how far it may be behind a networked store: the time between its last
confirmation that it receives changes and that heartbeat. A sidecar with several workers is
listed once, with the largest of their times. The command warns when the sidecars run different
configurations.`,
    )
    .action(async (options: ReportOptions) => (await import('../fleet.js')).listFleet(options));
}
