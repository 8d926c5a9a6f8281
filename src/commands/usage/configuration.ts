import { Argument, Command } from 'commander';
import {
  calls,
  collect,
  filled,
  jsonOption,
  listOf,
  passwordFileOption,
  SCHEMA_KINDS,
  withConfig,
} from '../terminal/options.js';

export function configurationCommands(): Command[] {
  return [initCommand(), checkCommand(), explainCommand(), policyCommand(), schemaCommand()];
}

function initCommand(): Command {
  return new Command('init')
    .description('write a first configuration and a directory file with one superuser')
    .argument('[dir]', 'the folder for latchkey.yaml and directory.yaml', '.')
    .option('--upstream <url>', 'the address of your API (default: http://127.0.0.1:3000)')
    .addOption(passwordFileOption())
    .addHelpText('after', `
It asks for the password of the superuser "admin", and prints what to run next. It never
overwrites a file.`)
    .action(calls(async () => import('../init.js'), 'init'));
} // prettier-ignore

function checkCommand(): Command {
  return withConfig('check', 'validate a configuration and print each error as FILE:LINE:COLUMN: message')
    .option('--expect <file>', 'also test a table of requests, and print those whose decision is not the expected one')
    .option('--online', 'also check that the store, upstreams, JWT issuers, identity providers and webhooks respond')
    .addHelpText('after', `
The directory file of the configuration is checked too. Nothing is opened or changed without
--online.

A table for --expect (latchkey schema expect prints its JSON Schema):
  requests:
    - { path: /service/S1, as: anonymous, expect: 401 }
    - { method: POST, path: /service/S1/purge_all, as: { role: engineer, scope: purge_select }, expect: scope }
    - { method: POST, path: /billing/plan, as: { role: engineer }, expect: 403 }
"as" is a session with that role, or a token if it has a scope or services. "expect" is allow, a
status or a reason.`)
    .action(calls(async () => import('../check.js'), 'check'));
} // prettier-ignore

function explainCommand(): Command {
  return withConfig('explain', 'show the decision for a request, and each rule that leads to it')
    .option('--method <method>', 'the HTTP method, in capitals (default: GET)')
    .requiredOption('--path <target>', 'the request target with its query, like /service/S1')
    .option('--host <host>', 'the host that the request names (default: localhost)', filled)
    .option('--header <line>', 'a header, like "Origin: https://a"; can be repeated', collect)
    .option('--address <ip>', 'the address that the connection comes from (default: 127.0.0.1)')
    .option('--key-file <file>', 'with the API token or legacy key in this file; - is standard input')
    .option('--key <secret>', 'with this API token or legacy key, which other users can see in process lists; - is standard input')
    .option('--token-id <id>', 'with the API token of this id')
    .option('--user <login>', 'as this user, with a session; with --scope or --services, with a token')
    .option('--scope <scopes>', 'scopes of the token, separated by spaces (default with --services: global)', filled)
    .option('--services <ids>', 'services of the token, separated by commas', listOf)
    .option('--anonymous', 'without a credential')
    .addOption(jsonOption())
    .addHelpText('after', '\nNothing is forwarded or recorded. The exit code is 0 for either decision.')
    .action(calls(async () => import('../explain.js'), 'runExplain'));
} // prettier-ignore

function schemaCommand(): Command {
  return new Command('schema')
    .description('print the JSON Schema of a file, for editors')
    .addArgument(
      new Argument(
        '[kind]',
        'the file; expect is the table for check --expect, shadow the file of policy_shadow',
      )
        .choices(SCHEMA_KINDS)
        .default('config'),
    )
    .action(calls(async () => import('../check.js'), 'printSchema'));
}

function policyCommand(): Command {
  return new Command('policy')
    .description('see what a different policy would change')
    .addCommand(diffCommand());
}

function diffCommand(): Command {
  return withConfig('diff', 'show which decisions change between two configurations, for whom, and by which rules')
    .requiredOption('--against <file>', 'the candidate: a configuration, or a file with only policy, routes and default_route')
    .option('--requests <file>', 'also evaluate the requests of this log, and list whose results change; - is standard input')
    .option('--allow <key>', 'a key that may differ although it is not compared, with all keys below it; can be repeated', collect)
    .addOption(jsonOption())
    .addHelpText('after', `
A sample of every route, method, role, scope and service limit is decided by the code that serves
requests. Nothing is changed.
--requests looks up the users and tokens of a log in the store of --config.
A difference outside the policy, like the upstream of a route, is not compared but listed.
The exit code is 0 if nothing becomes allowed that was not allowed before. It is 1 if something
does, if a key differs that is not compared, or if the comparison is not complete.`)
    .action(calls(async () => import('../policy-diff.js'), 'policyDiff'));
} // prettier-ignore

export function mintCommand(): Command {
  return new Command('mint')
    .description('print an assertion or identity headers for the tests of an upstream')
    .option('--as <login>', 'the user: a login or id of the directory file, or any name with --role or without a configuration', filled)
    .option('--scope <scopes>', 'as a token with these scopes, separated by spaces (default with --services: global)', filled)
    .option('--services <ids>', 'as a token that is limited to these services, separated by commas', listOf)
    .option('--key <file>', 'sign with this private key (PEM); without it, plain headers are printed')
    .option('--config <file>', 'the configuration with the issuer, audience, header names and directory file (default: latchkey.yaml, if there is one)')
    .option('--role <role>', 'the role, for a user that no directory file declares (default without a configuration: user)', filled)
    .option('--jwks', 'print the key set that verifies what --key signs')
    .addOption(jsonOption())
    .addHelpText('after', `
An assertion is marked "dev": true. Verifiers refuse it unless you configure them to accept it
(allowDev of latchkey/verify).`)
    .action(calls(async () => import('../mint.js'), 'mint'));
} // prettier-ignore
