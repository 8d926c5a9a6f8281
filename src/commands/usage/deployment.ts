import { Command, InvalidArgumentError, Option } from 'commander';
import { collect, jsonOption, urlFault } from '../terminal/options.js';
import type { DoctorCommandOptions } from '../doctor.js';

const MAX_PATHS = 8;

/** `latchkey doctor`: examines a deployment from outside. */
export function doctorCommand(): Command {
  return new Command('doctor')
    .description('examine a deployment from outside, and show how to fix what is wrong')
    .requiredOption('--url <url>', 'the deployment as clients reach it, like https://api.example', origin)
    .option('--upstream <url>', 'the API itself, including its base path; it should not be reachable from here', base)
    .option('--admin <url>', 'the admin port; it should not be reachable from here (default: port 9901 of the host)', origin)
    .option('--decision <url>', 'the decision port; it should not be reachable from here (default: ports 9902 and 9903 of the host)', origin)
    .option('--plain <url>', 'where plain HTTP is served in addition to TLS (default: port 80 of the host)', origin)
    .option('--path <path>', 'a path that needs a credential; can be repeated', paths)
    .option('--public <path>', 'a path that needs no credential; can be repeated (default: /status)', paths)
    .option('--identity-header <name>', 'a header that you renamed in identity.headers; can be repeated', names)
    .option('--key-file <file>', 'also send requests with the token in this file; - is standard input (or set LATCHKEY_DOCTOR_KEY)')
    .addOption(new Option('--key-header <name>', 'the header for the token').default('Service-Key').argParser(name))
    .option('--ca <file>', 'trust the certificates in this file (PEM) instead of the usual authorities')
    .option('--check <name>', 'only this check; can be repeated', collect, undefined)
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Examples:
  latchkey doctor --url https://api.example --path /service/S1 --path /billing/invoices
  latchkey doctor --url https://api.example --upstream http://10.0.0.5:3000 --admin http://10.0.0.5:9901 --json

Run it from where your clients are. It sends GET and OPTIONS only, to the paths that you name, to
built-in ones and to ones that do not exist: at most 10,000 requests, 4 at a time, each for 5
seconds at most, in 2 minutes. The user agent is latchkey-doctor/VERSION.
The exit code is 1 when a finding is serious.`,
    )
    .action(async (options: DoctorCommandOptions) => {
      const { doctor } = await import('../doctor.js');
      process.exitCode = await doctor(options);
    });
} // prettier-ignore

function origin(text: string): URL {
  if (/^https?:\/\/[^/?#@\s]+\/?$/i.test(text) && URL.canParse(text)) return new URL(text);
  throw urlFault(text, 'Expected a URL without a path, like https://api.example.');
}

function base(text: string): URL {
  if (/^https?:\/\/[^/?#@\s]+(?:\/[^?#\s]*)?$/i.test(text) && URL.canParse(text)) return new URL(text);
  throw urlFault(text, 'Expected a URL, like http://10.0.0.5:3000.');
}

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
