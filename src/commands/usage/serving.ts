// src/commands/usage: names, arguments and help of the commands, by the groups of `latchkey --help`.
// May import what commands may.
// A command is declared here, and loaded from its file when it runs.

import { Command, InvalidArgumentError, Option } from 'commander';
import { calls, collect, httpUrl, jsonOption, originUrl, withConfig } from '../terminal/options.js';

const MAX_PORT = 65_535;

const serversWork = async () => import('../servers.js');

export function servingCommands(): Command[] {
  return [
    withConfig('serve', 'start the server; SIGTERM stops it, SIGHUP reloads').action(
      calls(async () => import('../serve.js'), 'serve'),
    ),
    demoCommand(),
    withConfig(
      'reload',
      'make the server of this configuration reload it; if it refuses, exit with 1 and say why',
    ).action(calls(serversWork, 'reload')),
    withConfig('healthcheck', 'exit with 0 if the server of this configuration is ready').action(
      calls(serversWork, 'healthcheck'),
    ),
    fleetCommand(),
    doctorCommand(),
  ];
}

function demoCommand(): Command {
  return new Command('demo')
    .description('start a server with sample users, and print curl commands to try')
    .option('--upstream <url>', 'the API to protect (default: a built-in one that shows what it receives)', originUrl)
    .option('--port <number>', 'the port to listen on', port, '8080')
    .option('--data <dir>', 'the folder for users, passwords and tokens, readable only by you', 'data/demo')
    .action(calls(async () => import('../demo.js'), 'demo'));
} // prettier-ignore

function port(text: string): string {
  if (/^\d{1,5}$/.test(text) && Number(text) <= MAX_PORT) return text;
  throw new InvalidArgumentError(`Expected a number from 0 to ${MAX_PORT}; 0 picks a free port.`);
}

function fleetCommand(): Command {
  return withConfig('fleet', 'list the sidecars that are up, by their heartbeats in the store')
    .addOption(jsonOption())
    .addHelpText('after', `
HEARTBEAT AGE is how long ago a sidecar wrote its last heartbeat; after 12 seconds without one it
is not listed. LAG is how far it may be behind a networked store: the time between its last
confirmation that it receives changes and that heartbeat. A sidecar with several workers is
listed once, with the largest of their times. The command warns when the sidecars run different
configurations.`)
    .action(calls(serversWork, 'listFleet'));
} // prettier-ignore

const MAX_PATHS = 8;

function doctorCommand(): Command {
  return new Command('doctor')
    .description('examine a deployment from outside, and show how to fix what is wrong')
    .requiredOption('--url <url>', 'the deployment as clients reach it, like https://api.example', originUrl)
    .option('--upstream <url>', 'the API itself, including its base path; it should not be reachable from here', httpUrl)
    .option('--admin <url>', 'the admin port; it should not be reachable from here (default: port 9901 of the host)', originUrl)
    .option('--decision <url>', 'the decision port; it should not be reachable from here (default: ports 9902 and 9903 of the host)', originUrl)
    .option('--plain <url>', 'where plain HTTP is served in addition to TLS (default: port 80 of the host)', originUrl)
    .option('--path <path>', 'a path that needs a credential; can be repeated', paths)
    .option('--public <path>', 'a path that needs no credential; can be repeated', paths)
    .option('--identity-header <name>', 'a header that you renamed in identity.headers; can be repeated', names)
    .option('--key-file <file>', 'also send requests with the token in this file; - is standard input (or set LATCHKEY_DOCTOR_KEY)')
    .addOption(new Option('--key-header <name>', 'the header for the token').default('Service-Key').argParser(name))
    .option('--ca <file>', 'trust the certificates in this file (PEM) instead of the usual authorities')
    .option('--check <name>', 'only this check; can be repeated', collect, undefined)
    .addOption(jsonOption())
    .addHelpText('after', `
Run it from where your clients are. It sends GET and OPTIONS only, to the paths that you name, to
built-in ones and to ones that do not exist: at most 10,000 requests, 4 at a time, each for 5
seconds at most, in 2 minutes. The user agent is latchkey-doctor/VERSION.
The exit code is 1 when a finding is serious.`)
    .action(calls(async () => import('../doctor.js'), 'doctor'));
} // prettier-ignore

function paths(text: string, before: readonly string[] = []): string[] {
  if (!/^\/[\x21-\x7e]*$/.test(text) || text.includes('#'))
    throw new InvalidArgumentError('Expected a path like /service/S1.');
  if (before.length >= MAX_PATHS)
    throw new InvalidArgumentError(`At most ${MAX_PATHS} paths can be examined.`);
  return collect(text, before);
}

function name(text: string): string {
  if (/^[\w!#$%&'*+.^`|~-]+$/.test(text)) return text;
  throw new InvalidArgumentError('Expected the name of a header, like X-Auth-Role.');
}

function names(text: string, before: readonly string[] = []): string[] {
  return collect(name(text), before);
}
