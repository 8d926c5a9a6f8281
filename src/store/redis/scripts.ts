import { attemptScripts, loginScripts } from './login-scripts.js';
import { CHANGE } from './change-script.js';
import { fleetScripts } from './fleet-scripts.js';
import { maintenanceScripts } from './maintenance-scripts.js';
import { marked, reported } from './marks.js';
import { prelude } from './prelude.js';
import { readScripts } from './read-scripts.js';
import { recoveryScripts } from './recovery-scripts.js';
import { removalScripts } from './removal-scripts.js';
import { revocationScripts } from './revocation-scripts.js';
import { rotationScripts, tokenScripts } from './token-scripts.js';
import { usageScripts } from './usage-scripts.js';
import { NO_WEBHOOKS, webhookEventScripts, webhookFunctions } from './webhook-events.js';
import { webhookScripts } from './webhook-scripts.js';
import { createHash } from 'node:crypto';
import { Command, type Redis } from 'ioredis';
import type { WebhookSubscription } from '../webhook-store.js';

/**
 * The Lua scripts of the Redis store. Each runs atomically. KEYS[1] is any key of the deployment,
 * which routes the script to the slot that all keys share. ARGV[1] is their prefix.
 */
const SCRIPTS = {
  ...attemptScripts,
  change: CHANGE,
  ...fleetScripts,
  ...loginScripts,
  ...maintenanceScripts,
  ...readScripts,
  ...recoveryScripts,
  ...removalScripts,
  ...revocationScripts,
  ...rotationScripts,
  ...tokenScripts,
  ...usageScripts,
  ...webhookEventScripts,
  ...webhookScripts,
};

export type ScriptName = keyof typeof SCRIPTS;

export const SCRIPT_NAMES = Object.keys(SCRIPTS) as ScriptName[];

/**
 * Scripts whose outcome must be known. Each leaves a mark with its answer, atomically with its
 * effect; the mark is read if the reply was lost (`marks.ts`). Other scripts read, or write what
 * may be written again, or count. What may have been counted stays counted.
 */
const CHANGES: ReadonlySet<ScriptName> = new Set([
  'addRevoked',
  'claimWarnings',
  'change',
  'createSession',
  'createToken',
  'endSession',
  'endSessions',
  'grantSudo',
  'importTokens',
  'noteLogouts',
  'queueLocked',
  'removeDamaged',
  'removeSigningKeys',
  'removeTokens',
  'replaceSigningKeys',
  'resendWebhooks',
  'revoke',
  'rotateToken',
  'takeOtpStep',
  'updateToken',
]);

/** Whether a script leaves a mark; its key is the second one. */
export function isChange(name: ScriptName): boolean {
  return CHANGES.has(name);
}

/**
 * Changes that may end something for good. They return a pair: their
 * answer, and the names of what ended.
 */
const REVOKING: ReadonlySet<ScriptName> = new Set([
  'change',
  'createSession',
  'endSession',
  'endSessions',
  'removeDamaged',
  'revoke',
  'rotateToken',
  'updateToken',
]);

/** Whether a script returns a pair of its answer and what ended. */
export function reportsRevocations(name: ScriptName): boolean {
  return REVOKING.has(name);
}

/** Scripts that may cause webhook events. */
const EMITTING: ReadonlySet<ScriptName> = new Set([
  'change',
  'claimWarnings',
  'createToken',
  'importTokens',
  'queueExpired',
  'queueLocked',
  'reapply',
  'recover',
  'removeExpired',
  'removeTokens',
  'revoke',
  'rotateToken',
  'updateToken',
]);

/** Whether the text of a script depends on webhook subscriptions. */
function emitsWebhooks(name: ScriptName): boolean {
  return EMITTING.has(name);
}

/**
 * Returns a script with the functions that it uses.
 *
 * @param webhooks those that queue events
 * @param database number of the database that it runs in
 */
export function scriptText(name: ScriptName, webhooks = NO_WEBHOOKS, database = 0): string {
  const script = SCRIPTS[name];
  const body = isChange(name) ? marked(script, reportsRevocations(name)) : script;
  return prelude(webhooks, database) + reported(body, isChange(name));
}

interface Script {
  readonly text: string;
  readonly sha: string;
}

export type Scripts = Readonly<Record<ScriptName, Script>>;

const PLAIN = scriptsWith(SCRIPT_NAMES, undefined, 0) as Scripts;

/**
 * Returns the scripts of a process that queues events for these subscriptions.
 *
 * @param database number of the database that they run in
 */
export function scriptsFor(subscriptions: readonly WebhookSubscription[], database: number): Scripts {
  const plain = database === 0 ? PLAIN : (scriptsWith(SCRIPT_NAMES, undefined, database) as Scripts);
  if (subscriptions.length === 0) return plain;
  const emitting = SCRIPT_NAMES.filter(emitsWebhooks);
  return { ...plain, ...scriptsWith(emitting, webhookFunctions(subscriptions), database) };
}

function scriptsWith(
  names: readonly ScriptName[],
  webhooks: string | undefined,
  database: number,
): Partial<Scripts> {
  const entries = names.map((name) => {
    const text = scriptText(name, webhooks, database);
    return [name, { text, sha: createHash('sha1').update(text).digest('hex') }] as const;
  });
  return Object.fromEntries(entries) as Partial<Scripts>;
}

/**
 * Runs a script by its digest. A server that does not know it (yet, or
 * after a failover) is sent its text.
 *
 * @param timeout milliseconds; defaults to the timeout of any command
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
  // The first timeout that is set counts.
  if (timeout !== undefined) command.setTimeout(timeout);
  return connection.sendCommand(command);
}
