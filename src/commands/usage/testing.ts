import { Command } from 'commander';
import type { MintOptions } from '../mint.js';
import { filled, idOption, jsonOption, listOf, loginOption } from '../terminal/options.js';

export function mintCommand(): Command {
  return new Command('mint')
    .description('print an assertion or identity headers for the tests of an upstream')
    .option('--as <login>', 'the user: a login or id of the directory file, or any name with --role or without a configuration', filled)
    .addOption(loginOption())
    .addOption(idOption())
    .option('--scope <scopes>', 'as a token with these scopes, separated by spaces (default with --services: global)', filled)
    .option('--services <ids>', 'as a token that is limited to these services, separated by commas', listOf)
    .option('--key <file>', 'sign with this private key (PEM); without it, plain headers are printed')
    .option('--config <file>', 'the configuration with the issuer, audience, header names and directory file (default: latchkey.yaml, if there is one)')
    .option('--role <role>', 'the role, for a user that no directory file declares (default without a configuration: user)', filled)
    .option('--customer <id>', 'the customer, for a user that no directory file declares (default: dev)', filled)
    .option('--issuer <url>', 'the issuer (default: that of the configuration, or dev without one)', filled)
    .option('--audience <name>', 'the audience (default: that of the configuration, or dev without one)', filled)
    .option('--expires-in <duration>', 'how long it is valid, at most 1h', '1h')
    .option('--path <target>', 'bind it to a request with this target')
    .option('--method <method>', 'the method of that request', 'GET')
    .option('--request-id <id>', 'the X-Request-Id of that request (default: a random one)')
    .option('--headers', 'print all headers with the assertion, one per line')
    .option('--jwks', 'print the key set that verifies what --key signs')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Examples:
  openssl genpkey -algorithm ed25519 -out dev.pem
  latchkey mint --jwks --key dev.pem > dev-keys.json
  latchkey mint --as ada@example.com --scope global:read --services S1 --key dev.pem
  curl -H "X-Auth-Assertion: $(latchkey mint --as ada@example.com --key dev.pem)" http://127.0.0.1:3000/

An assertion is marked "dev": true. Verifiers refuse it unless you configure them to accept it
(allowDev of latchkey/verify).`,
    )
    .action(async (options: MintOptions) => (await import('../mint.js')).mint(options));
} // prettier-ignore
