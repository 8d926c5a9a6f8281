import { adminUrl, requestAdmin } from './admin-port.js';
import { CommandFailed } from './terminal/failure.js';

/** Checks that the server with this configuration is ready. @throws CommandFailed when it is not */
export async function healthcheck(options: { config: string }): Promise<void> {
  const { status, text } = await requestAdmin(`${adminUrl(options.config)}/readyz`);
  if (status !== 200) throw new CommandFailed(`not ready: ${text}`);
}
