import { Command } from 'commander';
import { configOption, jsonOption } from '../terminal/options.js';
import type { PolicyDiffOptions } from '../policy-diff.js';

/** `latchkey policy`: what another policy would change. */
export function policyCommand(): Command {
  return new Command('policy').description('see what another policy would change').addCommand(diffCommand());
}

/** `latchkey policy diff`: compares two configurations. */
function diffCommand(): Command {
  return new Command('diff')
    .description('show which decisions change between two configurations, for whom, and by which rules')
    .addOption(configOption())
    .requiredOption('--against <file>', 'the candidate: a configuration, or a file with only policy, routes and default_route')
    .option('--requests <file>', 'also judge the requests of this log, and name who would notice; - is standard input')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Examples:
  latchkey policy diff --config latchkey.yaml --against next.yaml
  latchkey policy diff --config latchkey.yaml --against next.yaml --requests access.log --json

Every method, path, role, scope and service limit is compared by the code that serves requests. Nothing is changed.
--requests looks up the users and tokens of a log in the store of --config.
The exit code is 0 if nothing becomes allowed that was not. It is 1 if something does, or if the comparison is not complete.`,
    )
    .action(async (options: PolicyDiffOptions) => {
      const { policyDiff } = await import('../policy-diff.js');
      process.exitCode = await policyDiff(options);
    });
} // prettier-ignore
