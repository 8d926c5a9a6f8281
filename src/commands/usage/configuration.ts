import { Argument, Command, InvalidArgumentError, Option } from 'commander';
import { METHODS } from '../../domain/methods.js';
import {
  collect,
  configOption,
  filled,
  idOption,
  jsonOption,
  listOf,
  loginOption,
  passwordFileOption,
} from '../terminal/options.js';
import type { CheckOptions } from '../check.js';
import type { InitOptions } from '../init.js';
import type { ExplainOptions } from '../explain.js';
import { SCHEMA_KINDS, type SchemaKind } from '../schema-kinds.js';

export function initCommand(): Command {
  return new Command('init')
    .description('write a first configuration and a directory file with one superuser')
    .argument('[dir]', 'the folder for latchkey.yaml and directory.yaml', '.')
    .option('--upstream <url>', 'the address of your API (default: http://127.0.0.1:3000)')
    .addOption(passwordFileOption())
    .addHelpText(
      'after',
      `
It asks for the password of the superuser "admin", and prints what to run next. It never
overwrites a file.`,
    )
    .action(async (folder: string, options: InitOptions) =>
      (await import('../init.js')).init(folder, options),
    );
}

export function checkCommand(): Command {
  return new Command('check')
    .description('validate a configuration and print each error as FILE:LINE:COLUMN: message')
    .addOption(configOption())
    .option('--expect <file>', 'also test a table of requests, and print those whose decision is not the expected one')
    .option('--online', 'also check that the store, upstreams, JWT issuers, identity providers and webhooks respond')
    .addHelpText(
      'after',
      `
The directory file of the configuration is checked too. Nothing is opened or changed without
--online.

A table for --expect (latchkey schema expect prints its JSON Schema):
  requests:
    - { path: /status, as: anonymous, expect: allow }
    - { method: POST, path: /service/S1/purge_all, as: { role: engineer, scope: purge_select }, expect: scope }
    - { method: POST, path: /billing/plan, as: { role: engineer }, expect: 403 }
"as" is a session with that role, or a token if it has a scope or services. "expect" is allow, a
status or a reason.`,
    )
    .action(async (options: CheckOptions) => {
      const { check } = await import('../check.js');
      process.exitCode = await check(options);
    }); // prettier-ignore
}

export function explainCommand(): Command {
  return new Command('explain')
    .description('show the decision for a request, and each rule that leads to it')
    .addOption(configOption())
    .option('--method <method>', 'the HTTP method (default: GET)', method)
    .requiredOption('--path <target>', 'the request target with its query, like /service/S1')
    .option('--header <line>', 'a header, like "Origin: https://a"; can be repeated', collect)
    .option('--address <ip>', 'the address that the connection comes from (default: 127.0.0.1)')
    .addOption(
      new Option('--key-file <file>', 'with the API token or legacy key in this file; - is standard input')
        .conflicts(['key', 'jwt', 'user', 'anonymous']),
    )
    .addOption(
      new Option('--key <secret>', 'with this API token or legacy key, which other users can see in process lists; - is standard input')
        .conflicts(['jwt', 'user', 'anonymous']),
    )
    .addOption(
      new Option('--jwt <file>', 'with the JWT in this file, whose signature is not checked; - is standard input')
        .conflicts(['user', 'anonymous']),
    )
    .addOption(
      new Option('--user <login>', 'as this user, with a session; with --scope or --services, with a token')
        .conflicts(['anonymous']),
    )
    .addOption(loginOption())
    .addOption(idOption())
    .option('--scope <scopes>', 'scopes of the token, separated by spaces (default with --services: global)', filled)
    .option('--services <ids>', 'services of the token, separated by commas', listOf)
    .option('--anonymous', 'without a credential')
    .addOption(
      new Option('--token-id <id>', 'with the API token of this id; also shows its state and limits')
        .conflicts(['key', 'keyFile', 'jwt', 'user', 'anonymous']),
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Examples:
  latchkey explain --config latchkey.yaml --method GET --path /service/S1 --anonymous
  latchkey explain --config latchkey.yaml --method POST --path /service/S1/purge_all --user ada@example.com --scope purge_all --services S1
  latchkey explain --config latchkey.yaml --method GET --path /service/S1 --key-file token.txt
  latchkey explain --config latchkey.yaml --method DELETE --path /service/S1 --token-id 4fQJ1xk2mZs8vN0aYb7LcD

Nothing is forwarded or recorded. The exit code is 0 for either decision.`,
    )
    .action(async (options: ExplainOptions) => (await import('../explain.js')).runExplain(options)); // prettier-ignore
}

/** Methods are case-sensitive, so one in lower case would be explained as an unknown one. */
function method(text: string): string {
  const upper = text.toUpperCase();
  if (text !== upper && METHODS.some((each) => each === upper))
    throw new InvalidArgumentError(`Did you mean ${upper}?`);
  return text;
}

export function schemaCommand(): Command {
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
    .action(async (kind: SchemaKind) => (await import('../schema.js')).printSchema(kind));
}
