import { loadConfig } from '../config/load.js';
import { CommandFailed } from './terminal/failure.js';

const TIMEOUT_MS = 3_000;

/** Asks the server that runs with this configuration whether it is ready. @throws CommandFailed when it is not */
export async function healthcheck(options: { config: string }): Promise<void> {
  const { request } = await import('undici');
  const { host, port } = loadConfig(options.config).config.admin;
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}/readyz`;
  try {
    const { statusCode, body } = await request(url, { headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS });
    const text = await body.text();
    if (statusCode !== 200) throw new CommandFailed(`not ready: ${text}`);
  } catch (error) {
    if (error instanceof CommandFailed) throw error;
    throw new CommandFailed(
      `${url} does not answer: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}
