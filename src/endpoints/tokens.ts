import { reportingUnknown, tokenCreatedEvent } from '../accounts/audit-events.js';
import type { AuditEvent } from '../domain/audit.js';
import { Limiter, permitOf } from '../domain/limiter.js';
import { segmentAt } from '../domain/path.js';
import { noToken, overloaded, type Refusal, Unavailable, unprocessable } from '../domain/refusal.js';
import type { User } from '../domain/user.js';
import type { RequestHead } from '../http/head.js';
import { jsonList, type Reply } from '../http/replies.js';
import type { TokenWithUse } from '../store/core/token-records.js';
import {
  type Call,
  endpoint,
  type EndpointServices,
  ownTokenId,
  type Resource,
  subjectOf,
} from './endpoint.js';
import {
  createdToken,
  fleetReceipt,
  type FleetReceiptObject,
  token,
  type TokenObject,
} from './schema/responses.js';
import {
  createTokenRequest,
  readCreateToken,
  readRevokeTokens,
  revokeTokensRequest,
} from './schema/requests.js';
import { checkProof } from './login.js';
import { rotationEndpoints, updateToken } from './token-changes.js';
import { createdTokenObject, furtherTokens, tokenObject } from './token-object.js';

const revocation = {
  method: 'DELETE',
  response: null,
  receipt: fleetReceipt,
  headers: ['Latchkey-Further-Tokens'],
  refusals: ['NotFound'],
} as const;

export const tokens = {
  tag: 'Tokens',
  description: 'API tokens: create, list, rotate, revoke',
  endpoints: [
    endpoint({
      name: 'create_token',
      method: 'POST',
      path: '/tokens',
      credential: 'none',
      acceptsJwt: false,
      summary: 'Create a token',
      description:
        'No other response ever contains the secret. A parameter that looks like a mistyped restriction, ' +
        'such as `scopes` or `expires`, gets 422 with a detail that names the right one; other unknown parameters are ignored.',
      request: { schema: createTokenRequest },
      otp: true,
      response: createdToken,
      codes: {
        400: ['invalid_request', 'invalid_grant', 'account_locked', '2fa.verify', 'invalid_scope'],
        422: ['Unprocessable Entity'],
      },
      refusals: ['Unauthenticated', 'Throttled'],
      /** A credential counts only without a login name: clients send theirs with every request. */
      handle: async (call, services) => {
        const { attempt, namesUser, request } = readCreateToken(call.body, call.head.query);
        const grant = (user: User) => services.tokens.create(user, request, call.now);
        const hasProof = namesUser || attempt.password !== undefined;
        const caller = namesUser ? undefined : await sudoUser(call, services);
        const checked = await checkProof(call, services, { ...attempt, hasProof, caller }, 400, grant);
        if ('refusal' in checked) return checked;
        const { token: created, secret } = checked.granted;
        const { customerId } = checked.user;
        return {
          status: 200,
          json: createdTokenObject(created, customerId, secret),
          auditEvents: [...checked.auditEvents, tokenCreatedEvent(created, customerId)],
        };
      },
    }),
    endpoint({
      name: 'list_tokens',
      method: 'GET',
      path: '/tokens',
      credential: 'configured',
      action: 'token:read',
      summary: 'List the tokens of the user',
      description: 'The oldest first.',
      response: token.array(),
      handle: async (call, services) => {
        const { user } = subjectOf(call);
        return listed(user, async () => services.tokens.ofUser(user.id));
      },
    }),
    endpoint({
      name: 'list_customer_tokens',
      method: 'GET',
      path: '/customer/:id/tokens',
      credential: 'configured',
      action: 'customer_token:read',
      id: 'customer',
      foreignRecordAction: 'customer_token:read',
      summary: "List the tokens of every user of the caller's own customer",
      description: "The oldest first. `id` is the id of the caller's own customer.",
      response: token.array(),
      handle: async (call, services) => {
        const { user } = subjectOf(call);
        return listed(user, async () => services.tokens.ofCustomer(user.customerId));
      },
    }),
    endpoint({
      ...revocation,
      name: 'revoke_tokens',
      path: '/tokens',
      credential: 'configured',
      action: 'token:write',
      summary: 'Revoke several tokens, all of them or none',
      request: { schema: revokeTokensRequest, types: ['application/json', 'application/vnd.api+json'] },
      /** The ids are in the body, so they are authorized here and not by the gate. */
      handle: async (call, services) => {
        const read = readRevokeTokens(call.body);
        if ('refusal' in read) return read;
        for (const id of read.ids) {
          const refusal = await services.ownership.refuseToken(id, subjectOf(call), 'customer_token:write');
          if (refusal !== undefined) return refusal;
        }
        return revoke(read.ids, call, services);
      },
    }),
    endpoint({
      name: 'show_own_token',
      method: 'GET',
      path: '/tokens/self',
      credential: 'token',
      acceptsJwt: true,
      summary: 'Show the token of the request',
      description: 'For a JWT from another issuer: what it may do here, and until when.',
      response: token,
      refusals: ['NotFound'],
      handle: async (call, services) => {
        const known = subjectOf(call);
        if (known.credential === 'jwt')
          return { status: 200, json: tokenObject({ token: known.token, use: null }, known.user.customerId) };
        return show(ownTokenId(call), known.user, services);
      },
    }),
    endpoint({
      ...revocation,
      name: 'revoke_own_token',
      path: '/tokens/self',
      credential: 'token',
      summary: 'Revoke the token of the request',
      handle: async (call, services) => revoke([ownTokenId(call)], call, services),
    }),
    endpoint({
      name: 'show_token',
      method: 'GET',
      path: '/tokens/:id',
      credential: 'configured',
      action: 'token:read',
      id: 'token',
      foreignRecordAction: 'customer_token:read',
      summary: "Show a token of the caller's own customer",
      response: token,
      refusals: ['NotFound'],
      handle: async (call, services) => show(segmentAt(call.path, 1) ?? '', subjectOf(call).user, services),
    }),
    updateToken,
    endpoint({
      ...revocation,
      name: 'revoke_token',
      path: '/tokens/:id',
      credential: 'configured',
      action: 'token:write',
      id: 'token',
      foreignRecordAction: 'customer_token:write',
      summary: 'Revoke a token',
      description:
        'Every token that came from it by rotation is revoked too. ' +
        "Another user's token needs the action `customer_token:write` too.",
      handle: async (call, services) => revoke([segmentAt(call.path, 1) ?? ''], call, services),
    }),
    ...rotationEndpoints,
  ],
} as const satisfies Resource;

/** If it recently confirmed the password. */
async function sudoUser({ head, now }: Call, { identify, sessions }: EndpointServices): Promise<User | undefined> {
  const subject = await identify?.(head, now);
  if (subject === undefined || 'refusal' in subject) return undefined;
  return (await sessions.hasSudo(subject, now)) ? subject.user : undefined;
} // prettier-ignore

async function revoke(
  ids: readonly string[],
  { head }: Call,
  services: EndpointServices,
): Promise<Reply<FleetReceiptObject> | Refusal> {
  const { tokens } = services;
  const wait = readWait(head);
  if ('refusal' in wait) return wait;
  const auditEvents: AuditEvent[] = [];
  const sentAt = performance.now();
  const { missing, further } = await reportingUnknown(auditEvents, async () =>
    tokens.revoke(ids, auditEvents),
  );
  if (missing[0] !== undefined) return noToken(missing[0]);
  const headers = furtherTokens(further);
  const revokedAll = { status: 204, headers, auditEvents };
  if (!wait.fleet) return revokedAll;
  return { ...revokedAll, after: async () => ({ ...(await receiptReply(sentAt, services)), headers }) };
}

/** Reads `?wait=fleet`: whether to respond only once every sidecar has dropped the token. */
function readWait({ query }: RequestHead): { readonly fleet: boolean } | Refusal {
  const given = new URLSearchParams(query).getAll('wait');
  if (given.length === 0) return { fleet: false };
  if (given.length === 1 && given[0] === 'fleet') return { fleet: true };
  // A client that asks to wait must not mistake another response for the confirmation.
  return unprocessable('wait must be "fleet" and given once; omit it for an immediate response');
}

/** 200 when every sidecar has dropped the token, else 202. */
async function receiptReply(
  sentAt: number,
  { collectReceipt }: EndpointServices,
): Promise<Reply<FleetReceiptObject>> {
  const { sidecars, slowestMs, missing } = await collectReceipt(sentAt);
  const late = missing.map(({ name, heartbeatAge }) => ({ name, heartbeat_age_ms: heartbeatAge }));
  return {
    status: late.length === 0 ? 200 : 202,
    json: { sidecars, slowest_ms: slowestMs, ...(late.length === 0 ? {} : { missing: late }) },
  };
}

async function show(id: string, { customerId }: User, { tokens }: EndpointServices): Promise<Reply<TokenObject> | Refusal> {
  const found = await tokens.get(id, customerId);
  return found === undefined ? noToken(id) : { status: 200, json: tokenObject(found, customerId) };
} // prettier-ignore

/** @param user who asks for the list */
async function listed(
  { id, customerId }: User,
  find: () => Promise<readonly TokenWithUse[]>,
): Promise<Reply<TokenObject[]>> {
  const end = await beginList(id);
  try {
    const content = await jsonList(await find(), (each): TokenObject => tokenObject(each, customerId));
    return { status: 200, content, sent: end };
  } catch (error) {
    end();
    throw error;
  }
}

/** Of the lists of one user, in this process. */
const LIST_LIMITS = { size: 2, maxWaiting: 20, timeout: 2_000 };

const lists = new Map<string, Limiter>();

/**
 * Limits the lists of one user that are in memory: that of a customer with 100,000 tokens takes 30 MiB and
 * seconds of processor time. Others must still find the token to revoke.
 * @returns the function that ends the turn
 * @throws Unavailable if the wait would be too long
 */
export async function beginList(userId: string, timeout = LIST_LIMITS.timeout): Promise<() => void> {
  const limiter = lists.get(userId) ?? new Limiter({ ...LIST_LIMITS, timeout });
  lists.set(userId, limiter);
  const permit = await permitOf(limiter, [], busy);
  return () => {
    permit.release();
    if (limiter.active === 0 && lists.get(userId) === limiter) lists.delete(userId);
  };
}

function busy(): Unavailable {
  return new Unavailable(overloaded('Too many lists at once'), 'too many lists of one user are in progress');
}
