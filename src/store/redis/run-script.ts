import { createHash } from 'node:crypto';
import { Command, type Redis } from 'ioredis';
import { SCRIPT_NAMES, type ScriptName, scriptText } from './scripts.js';

interface Script {
  readonly text: string;
  readonly sha: string;
}

const scripts = Object.fromEntries(
  SCRIPT_NAMES.map((name) => {
    const text = scriptText(name);
    return [name, { text, sha: createHash('sha1').update(text).digest('hex') }];
  }),
) as Record<ScriptName, Script>;

/**
 * Runs a script by its digest; a server that does not know it (yet, or after a failover) gets its text.
 *
 * @param timeout milliseconds; undefined: as long as any command
 */
export async function runScript(
  connection: Redis,
  name: ScriptName,
  keys: readonly string[],
  args: readonly (string | number)[],
  timeout?: number,
): Promise<unknown> {
  const { sha, text } = scripts[name];
  const rest = [keys.length, ...keys, ...args];
  try {
    return await send(connection, 'evalsha', [sha, ...rest], timeout);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
    return send(connection, 'eval', [text, ...rest], timeout);
  }
}

async function send(
  connection: Redis,
  name: string,
  args: (string | number)[],
  timeout: number | undefined,
): Promise<unknown> {
  const command = new Command(name, args, { replyEncoding: 'utf8' });
  // The one that is set first holds.
  if (timeout !== undefined) command.setTimeout(timeout);
  return connection.sendCommand(command);
}
