import { CHANGE } from './change-script.js';
import { ATTEMPT_HELD_UNTIL, KNOWN_ADDRESSES, RESERVE_ATTEMPT, SETTLE_ATTEMPT } from './attempt-scripts.js';
import { CLAIM_WARNINGS, LIST_EXPIRING } from './expiry-scripts.js';
import {
  FLEET_ANSWER,
  FLEET_ANSWERS,
  FLEET_ASK,
  FLEET_BEAT,
  FLEET_LEAVE,
  FLEET_LIST,
  FLEET_QUESTIONS,
} from './fleet-scripts.js';
import {
  COUNT_WRITE,
  CREATE_SESSION,
  END_SESSION,
  END_SESSIONS,
  GRANT_SUDO,
  NOTE_LOGOUTS,
  READ_SUDO,
  TAKE_OTP_STEP,
} from './login-scripts.js';
import { COST_OF, PROBE_LINK, PROBE_WRITE, REMOVE_EXPIRED, SET_RESTORING } from './maintenance-scripts.js';
import { marked } from './marks.js';
import { prelude } from './prelude.js';
import { LEASE_RATE } from './rate-scripts.js';
import { FIND, GET, GET_ALL, MEMBERS, READ_SESSIONS } from './read-scripts.js';
import { BEGIN_RECOVERY, RECOVER } from './recovery-scripts.js';
import { MISSING_TOKENS, READ_REVOCATIONS, REAPPLY } from './revocation-scripts.js';
import { CLAIM_ENDED_OVERLAPS, COUNT_IN_OVERLAP, FINISH_OVERLAPS, ROTATE_TOKEN } from './rotation-scripts.js';
import { REMOVE_SIGNING_KEYS, REPLACE_SIGNING_KEYS } from './signing-key-scripts.js';
import {
  ADD_REVOKED,
  COUNT_ACTIVE,
  COUNT_TOKENS,
  CREATE_TOKEN,
  FILTER_NEW,
  FILTER_REVOKED,
  IMPORT_TOKENS,
  READ_TOKENS,
  RECORD_USES,
  REMOVE_TOKENS,
  REVOKE,
  UPDATE_TOKEN,
} from './token-scripts.js';
import { NO_WEBHOOKS, QUEUE_EXPIRED, QUEUE_LOCKED } from './webhook-events.js';
import {
  ACQUIRE_WEBHOOKS,
  KEEP_WEBHOOKS,
  READ_DEAD_WEBHOOKS,
  READ_DUE_WEBHOOKS,
  READ_WEBHOOKS,
  RELEASE_WEBHOOKS,
  RESEND_WEBHOOKS,
  SETTLE_WEBHOOK,
} from './webhook-scripts.js';

/**
 * The Lua scripts of the Redis store. Each is one atomic step. KEYS[1] is any key of the deployment, which
 * routes the script to the slot that all keys share; ARGV[1] is their prefix.
 */

/**
 * Scripts whose effect must be known: each leaves a mark with its answer, in the same step, which is asked for when the
 * answer got lost (`marks.ts`).
 */
const CHANGES = {
  addRevoked: ADD_REVOKED,
  claimWarnings: CLAIM_WARNINGS,
  change: CHANGE,
  createSession: CREATE_SESSION,
  createToken: CREATE_TOKEN,
  endSession: END_SESSION,
  endSessions: END_SESSIONS,
  grantSudo: GRANT_SUDO,
  importTokens: IMPORT_TOKENS,
  queueLocked: QUEUE_LOCKED,
  removeSigningKeys: REMOVE_SIGNING_KEYS,
  removeTokens: REMOVE_TOKENS,
  replaceSigningKeys: REPLACE_SIGNING_KEYS,
  resendWebhooks: RESEND_WEBHOOKS,
  revoke: REVOKE,
  rotateToken: ROTATE_TOKEN,
  takeOtpStep: TAKE_OTP_STEP,
  updateToken: UPDATE_TOKEN,
} as const;

/** The others read, or write what may be written again, or count: what may have been counted stays counted. */
const SCRIPTS = {
  ...CHANGES,
  acquireWebhooks: ACQUIRE_WEBHOOKS,
  keepWebhooks: KEEP_WEBHOOKS,
  queueExpired: QUEUE_EXPIRED,
  readDeadWebhooks: READ_DEAD_WEBHOOKS,
  readDueWebhooks: READ_DUE_WEBHOOKS,
  readWebhooks: READ_WEBHOOKS,
  releaseWebhooks: RELEASE_WEBHOOKS,
  settleWebhook: SETTLE_WEBHOOK,
  readSessions: READ_SESSIONS,
  setRestoring: SET_RESTORING,
  countTokens: COUNT_TOKENS,
  attemptHeldUntil: ATTEMPT_HELD_UNTIL,
  beginRecovery: BEGIN_RECOVERY,
  claimEndedOverlaps: CLAIM_ENDED_OVERLAPS,
  countActive: COUNT_ACTIVE,
  countInOverlap: COUNT_IN_OVERLAP,
  countWrite: COUNT_WRITE,
  finishOverlaps: FINISH_OVERLAPS,
  noteLogouts: NOTE_LOGOUTS,
  fleetAnswer: FLEET_ANSWER,
  fleetAnswers: FLEET_ANSWERS,
  fleetAsk: FLEET_ASK,
  fleetBeat: FLEET_BEAT,
  fleetLeave: FLEET_LEAVE,
  fleetList: FLEET_LIST,
  fleetQuestions: FLEET_QUESTIONS,
  filterNew: FILTER_NEW,
  filterRevoked: FILTER_REVOKED,
  find: FIND,
  get: GET,
  getAll: GET_ALL,
  knownAddresses: KNOWN_ADDRESSES,
  leaseRate: LEASE_RATE,
  listExpiring: LIST_EXPIRING,
  members: MEMBERS,
  missingTokens: MISSING_TOKENS,
  probe: GET,
  probeLink: PROBE_LINK,
  probeWrite: PROBE_WRITE,
  readRevocations: READ_REVOCATIONS,
  readSudo: READ_SUDO,
  readTokens: READ_TOKENS,
  reapply: REAPPLY,
  recordUses: RECORD_USES,
  recover: RECOVER,
  removeExpired: REMOVE_EXPIRED,
  reserveAttempt: RESERVE_ATTEMPT,
  settleAttempt: SETTLE_ATTEMPT,
} as const;

export type ScriptName = keyof typeof SCRIPTS;

export const SCRIPT_NAMES = Object.keys(SCRIPTS) as ScriptName[];

/** Whether a script leaves a mark, whose key is its second. */
export function isChange(name: ScriptName): boolean {
  return name in CHANGES;
}

/** Changes that may end something for good. Their answer is a pair: what they answer, and names of what ended. */
const ENDING: ReadonlySet<ScriptName> = new Set([
  'change',
  'createSession',
  'endSession',
  'endSessions',
  'revoke',
  'rotateToken',
  'updateToken',
]);

/** Whether the answer of a script is a pair of an answer and what ended. */
export function endsSomething(name: ScriptName): boolean {
  return ENDING.has(name);
}

/** Scripts that may change something that webhooks tell of. */
const TELLING: ReadonlySet<ScriptName> = new Set([
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
]);

/** Whether a script is another one where somebody subscribed to webhooks. */
export function tellsWebhooks(name: ScriptName): boolean {
  return TELLING.has(name);
}

/** A script with the functions that it uses. @param webhooks those that queue events */
export function scriptText(name: ScriptName, webhooks = NO_WEBHOOKS): string {
  const script = (name === 'change' ? COST_OF : '') + SCRIPTS[name];
  return prelude(webhooks) + (isChange(name) ? marked(script, endsSomething(name)) : script);
}
