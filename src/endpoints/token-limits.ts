import { reportingUnknown } from '../accounts/unconfirmed.js';
import type { AuditEvent } from '../domain/audit.js';
import { segmentAt } from '../domain/path.js';
import { endpoint, subjectOf } from './endpoint.js';
import { token } from './schema/responses.js';
import { readUpdateToken, updateTokenForm, updateTokenRequest } from './schema/requests.js';
import { furtherTokens, tokenObject } from './token-object.js';

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
    if (found === undefined || changed === undefined)
      return { refusal: 'not_found', detail: `Cannot find token '${id}'` };
    if ('refusal' in changed) return changed;
    const json = tokenObject({ ...found, token: changed.token }, customerId);
    return { status: 200, headers: furtherTokens(changed.further), json, auditEvents };
  },
});
