import { loadConfig } from '../config/load.js';
import { describeSystemError } from '../domain/system-error.js';
import { CommandFailed } from './terminal/failure.js';

const TIMEOUT_MS = 3_000;

/**
 * Returns the URL of the admin port of the server that runs with a configuration.
 *
 * @throws CommandFailed when the server chooses a free port
 */
export function adminUrl(configFile: string): string {
  const { host, port } = loadConfig(configFile).config.admin;
  if (port === 0)
    throw new CommandFailed(
      `admin.port in ${configFile} is 0, so the server chooses a free port, which its log names; set a fixed port`,
    );
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Sends a GET request to the admin port. @throws CommandFailed when it does not answer */
export async function requestAdmin(url: string): Promise<{ status: number; text: string }> {
  const { request } = await import('undici');
  try {
    const response = await request(url, { headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS });
    return { status: response.statusCode, text: await response.body.text() };
  } catch (error) {
    throw new CommandFailed(`${url} does not respond: ${describeSystemError(error)}; is the server running?`);
  }
}
