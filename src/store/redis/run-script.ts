import { createHash } from 'node:crypto';
import { Command, type Redis } from 'ioredis';
import type { WebhookSubscription } from '../webhook-store.js';
import { SCRIPT_NAMES, type ScriptName, scriptText, tellsWebhooks } from './scripts.js';
import { webhookFunctions } from './webhook-events.js';

interface Script {
  readonly text: string;
  readonly sha: string;
}

export type Scripts = Readonly<Record<ScriptName, Script>>;

const PLAIN = scriptsWith(SCRIPT_NAMES, undefined) as Scripts;

/** The scripts of a process that queues the events of some subscriptions. */
export function scriptsFor(subscriptions: readonly WebhookSubscription[]): Scripts {
  if (subscriptions.length === 0) return PLAIN;
  const telling = SCRIPT_NAMES.filter(tellsWebhooks);
  return { ...PLAIN, ...scriptsWith(telling, webhookFunctions(subscriptions)) };
}

function scriptsWith(names: readonly ScriptName[], webhooks: string | undefined): Partial<Scripts> {
  const entries = names.map((name) => {
    const text = scriptText(name, webhooks);
    return [name, { text, sha: createHash('sha1').update(text).digest('hex') }] as const;
  });
  return Object.fromEntries(entries) as Partial<Scripts>;
}

/**
 * Runs a script by its digest; a server that does not know it (yet, or after a failover) gets its text.
 *
 * @param timeout milliseconds; undefined: as long as any command
 */
export async function runScript(
  connection: Redis,
  { sha, text }: Script,
  keys: readonly string[],
  args: readonly (string | number)[],
  timeout?: number,
): Promise<unknown> {
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
