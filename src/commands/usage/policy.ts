import { Command } from 'commander';
import { collect, configOption, jsonOption, urlFault } from '../terminal/options.js';
import type { PolicyDiffOptions } from '../policy-diff.js';
import type { PolicyShadowOptions } from '../policy-shadow.js';

/** `latchkey policy`: shows what a different policy would change. */
export function policyCommand(): Command {
  return new Command('policy')
    .description('see what a different policy would change')
    .addCommand(diffCommand())
    .addCommand(shadowCommand());
}

/** `latchkey policy diff`: compares two configurations. */
function diffCommand(): Command {
  return new Command('diff')
    .description('show which decisions change between two configurations, for whom, and by which rules')
    .addOption(configOption())
    .requiredOption('--against <file>', 'the candidate: a configuration, or a file with only policy, routes and default_route')
    .option('--requests <file>', 'also evaluate the requests of this log, and list whose results change; - is standard input')
    .option('--allow <key>', 'a key that may differ although it is not compared, with all keys below it; can be repeated', collect)
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Examples:
  latchkey policy diff --config latchkey.yaml --against next.yaml
  latchkey policy diff --config latchkey.yaml --against next.yaml --requests access.log --json

A sample of every route, method, role, scope and service limit is decided by the code that serves
requests. Nothing is changed.
--requests looks up the users and tokens of a log in the store of --config.
A difference outside the policy, like the upstream of a route, is not compared but listed.
The exit code is 0 if nothing becomes allowed that was not allowed before. It is 1 if something
does, if a key differs that is not compared, or if the comparison is not complete.`,
    )
    .action(async (options: PolicyDiffOptions) => {
      const { policyDiff } = await import('../policy-diff.js');
      process.exitCode = await policyDiff(options);
    });
} // prettier-ignore

/** `latchkey policy shadow`: asks a server what its shadow policy would decide differently. */
function shadowCommand(): Command {
  return new Command('shadow')
    .description('list the requests that the shadow policy of a running server would decide differently')
    .addOption(configOption())
    .option('--admin <url>', 'the admin port (default: the one of the configuration)', origin)
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
The shadow policy is the file of policy_shadow in the configuration. Each request is also checked
against it, but it never decides. Counts start over when the policy or the shadow policy changes. A
count with "<=" is an upper bound; --json shows by how much it may be too high.`,
    )
    .action(async (options: PolicyShadowOptions) =>
      (await import('../policy-shadow.js')).policyShadow(options),
    );
}

function origin(text: string): string {
  if (/^https?:\/\/[^/?#@\s]+\/?$/i.test(text) && URL.canParse(text)) return new URL(text).origin;
  throw urlFault(text, 'Expected a URL without a path, like http://127.0.0.1:9901.');
}
