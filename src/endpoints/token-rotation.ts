import type { Refusal } from '../domain/refusal.js';
import type { Token } from '../domain/token.js';
import { segmentAt } from '../domain/path.js';
import type { Reply } from '../http/replies.js';
import { type Call, endpoint, type EndpointSettings, ownTokenId, subjectOf } from './endpoint.js';
import { createdToken, type CreatedTokenObject } from './schema/responses.js';
import { readRotateToken, rotateTokenRequest } from './schema/requests.js';
import type { EndpointServices } from './services.js';
import { createdTokenObject } from './token-object.js';

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
    credential: ({ tokenEndpoints }: EndpointSettings) => tokenEndpoints,
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
