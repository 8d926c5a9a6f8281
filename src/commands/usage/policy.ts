import { Command, InvalidArgumentError } from 'commander';
import { configOption, jsonOption } from '../terminal/options.js';
import type { PolicyShadowOptions } from '../policy-shadow.js';

/** `latchkey policy`: what another policy would change. */
export function policyCommand(): Command {
  return new Command('policy')
    .description('see what another policy would change')
    .addCommand(shadowCommand());
}

/** `latchkey policy shadow`: asks a server what its shadow policy would decide otherwise. */
function shadowCommand(): Command {
  return new Command('shadow')
    .description('list the requests that the shadow policy of a running server would decide otherwise')
    .addOption(configOption())
    .option('--admin <url>', 'the admin port (default: the one of the configuration)', origin)
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
The shadow policy is the file of policy_shadow in the configuration. It is judged with each request and never decides.
Counts begin anew when the policy or the shadow policy changes. A count with "<=" is too high by at most what --json names.`,
    )
    .action(async (options: PolicyShadowOptions) =>
      (await import('../policy-shadow.js')).policyShadow(options),
    );
}

function origin(text: string): string {
  if (/^https?:\/\/[^/?#@\s]+\/?$/i.test(text) && URL.canParse(text)) return new URL(text).origin;
  throw new InvalidArgumentError('Expected a URL without a path, like http://127.0.0.1:9901.');
}
