import { Argument, Command, Option } from 'commander';
import { collect, configOption, jsonOption, listOf } from '../terminal/options.js';
import type { CheckOptions } from '../check.js';
import type { ExplainOptions } from '../explain.js';
import { SCHEMA_KINDS, type SchemaKind } from '../schema-kinds.js';

/** `latchkey check`: prints each fault of a configuration, its directory and its policy. */
export function checkCommand(): Command {
  return new Command('check')
    .description('validate a configuration and print each fault as FILE:LINE:COLUMN: message')
    .addOption(configOption())
    .option('--expect <file>', 'also judge a table of requests, and print those that are not judged as expected')
    .addHelpText(
      'after',
      `
The directory file that the configuration names is checked as well. Nothing is opened or changed.

A table for --expect (latchkey schema expect prints its JSON Schema):
  requests:
    - { path: /status, as: anonymous, expect: allow }
    - { method: POST, path: /service/S1/purge_all, as: { role: engineer, scope: purge_select }, expect: scope }
    - { method: POST, path: /billing/plan, as: { role: engineer }, expect: 403 }
"as" is a session of that role, or a token when it has a scope or services. "expect" is allow, a status, or a reason.`,
    )
    .action(async (options: CheckOptions) => {
      const { check } = await import('../check.js');
      process.exitCode = await check(options);
    }); // prettier-ignore
}

/** `latchkey explain`: what the server would do with a request, and every rule that leads to it. */
export function explainCommand(): Command {
  return new Command('explain')
    .description('say what the server would do with a request, and which rules lead to it')
    .addOption(configOption())
    .option('--method <method>', 'the method', 'GET')
    .requiredOption('--path <target>', 'the request target as it is sent, query included, like /service/S1')
    .option('--header <line>', 'a header field, like "Origin: https://a"; can be given several times', collect)
    .addOption(
      new Option('--key-file <file>', 'as whoever holds the API token or legacy key in a file, or - for standard input')
        .conflicts(['key', 'user', 'anonymous']),
    )
    .addOption(
      new Option('--key <secret>', 'the same key as an argument, which other users can see in process lists; - is standard input')
        .conflicts(['user', 'anonymous']),
    )
    .addOption(
      new Option('--user <login>', 'as this user: by a session, or by a token when --scope or --services is given')
        .conflicts(['anonymous']),
    )
    .option('--scope <scopes>', 'scopes of the token, separated by spaces (default with --services: global)')
    .option('--services <ids>', 'services that the token is limited to, separated by commas', listOf)
    .option('--anonymous', 'without a credential')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Examples:
  latchkey explain --config latchkey.yaml --method GET --path /service/S1 --anonymous
  latchkey explain --config latchkey.yaml --method POST --path /service/S1/purge_all --user ada@example.com --scope purge_all --services S1
  latchkey explain --config latchkey.yaml --method GET --path /service/S1 --key-file token.txt

Nothing is forwarded and nothing is recorded. It exits with 0 whatever the verdict is.`,
    )
    .action(async (options: ExplainOptions) => (await import('../explain.js')).runExplain(options)); // prettier-ignore
}

/** `latchkey schema`: prints the JSON Schema of what may be written in a file. */
export function schemaCommand(): Command {
  return new Command('schema')
    .description('print the JSON Schema of a file, for editors')
    .addArgument(
      new Argument('[kind]', 'which file; expect is the table of check --expect')
        .choices(SCHEMA_KINDS)
        .default('config'),
    )
    .action(async (kind: SchemaKind) => (await import('../schema.js')).printSchema(kind));
}
