import { reportingUnknown } from '../accounts/audit-events.js';
import type { AuditEvent } from '../domain/audit.js';
import { segmentAt } from '../domain/path.js';
import { noToken, type Refusal } from '../domain/refusal.js';
import type { Token } from '../domain/token.js';
import type { Reply } from '../http/replies.js';
import { type Call, endpoint, type EndpointServices, ownTokenId, subjectOf } from './endpoint.js';
import {
  readRotateToken,
  readUpdateToken,
  rotateTokenRequest,
  updateTokenForm,
  updateTokenRequest,
} from './schema/requests.js';
import { createdToken, type CreatedTokenObject, token } from './schema/responses.js';
import { createdTokenObject, furtherTokens, tokenObject } from './token-object.js';

/** It requires a session, so that no token can widen its own limits. */
export const updateToken = endpoint({
  name: 'update_token',
  method: 'PATCH',
  path: '/tokens/:id',
  credential: 'session',
  action: 'token:write',
  id: 'token',
  foreignRecordAction: 'customer_token:write',
  summary: 'Suspend, resume or limit a token',
  description:
    'Fields that are left out do not change, and `null` removes a limit. A suspended token is refused like an ' +
    'unknown one until it is resumed; so is every token that came from it by rotation. ' +
    "Another user's token needs the action `customer_token:write` too.",
  request: {
    schema: updateTokenRequest,
    types: ['application/json', 'application/merge-patch+json'],
    form: updateTokenForm,
  },
  response: token,
  headers: ['Latchkey-Further-Tokens'],
  codes: { 422: ['Unprocessable Entity'] },
  refusals: ['NotFound'],
  handle: async (call, services) => {
    const change = readUpdateToken(call.body, call.head.query);
    if ('refusal' in change) return change;
    const id = segmentAt(call.path, 1) ?? '';
    const { customerId } = subjectOf(call).user;
    // Read before the change: nothing may fail between a change and its audit entry.
    const found = await services.tokens.get(id, customerId);
    const auditEvents: AuditEvent[] = [];
    const changed =
      found &&
      (await reportingUnknown(auditEvents, async () =>
        services.tokens.change(id, change, call.now, auditEvents),
      ));
    if (found === undefined || changed === undefined) return noToken(id);
    if ('refusal' in changed) return changed;
    const json = tokenObject({ ...found, token: changed.token }, customerId);
    return { status: 200, headers: furtherTokens(changed.further), json, auditEvents };
  },
});

const common = {
  method: 'POST',
  request: { schema: rotateTokenRequest, optional: true },
  response: createdToken,
  codes: { 422: ['Unprocessable Entity'] },
  refusals: ['NotFound'],
} as const;

export const rotationEndpoints = [
  endpoint({
    ...common,
    name: 'rotate_own_token',
    path: '/tokens/self/rotate',
    credential: 'token',
    summary: 'Replace the token of the request',
    description:
      'The response contains a new token with the same name, scopes, services and limits, and its secret, which is shown only once. ' +
      'The old token is accepted until the overlap ends. A parameter that looks like a restriction, such as `scope` or `expires_at`, ' +
      'or like a mistyped `overlap`, gets 422. So does a token that was rotated before.',
    handle: async (call, services) => rotate(ownTokenId(call), call, services),
  }),
  endpoint({
    ...common,
    name: 'rotate_token',
    path: '/tokens/:id/rotate',
    credential: 'configured',
    action: 'token:write',
    id: 'token',
    foreignRecordAction: 'customer_token:write',
    summary: 'Replace a token',
    description: "The token must be one of the caller's own, and must not allow more than the caller may do.",
    handle: async (call, services) => rotate(segmentAt(call.path, 1) ?? '', call, services),
  }),
] as const;

async function rotate(
  id: string,
  call: Call,
  { rotations, ownership }: EndpointServices,
): Promise<Reply<CreatedTokenObject> | Refusal> {
  const subject = subjectOf(call);
  const tokenId = subject.credential === 'session' ? null : subject.token.id;
  const caller = {
    customerId: subject.user.customerId,
    notAfter: subject.credential === 'session' || tokenId === id ? null : subject.token.expiresAt,
    tokenId,
    refuse: (token: Token) => ownership.refuseIssuing(subject, token),
  };
  const rotated = await rotations.rotate(id, readRotateToken(call.body, call.head.query), caller, call.now);
  if ('refusal' in rotated) return rotated;
  const { rotation, secret, customerId, auditEvents } = rotated;
  return { status: 200, json: createdTokenObject(rotation.replacement, customerId, secret), auditEvents };
}
