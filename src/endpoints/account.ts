import { z } from 'zod';
import { reportingUnknown } from '../accounts/audit-events.js';
import { sudoGrantedEvent } from '../accounts/sessions.js';
import { formatTime } from '../util/time.js';
import type { User } from '../domain/user.js';
import type { DirectoryStore } from '../store/core/directory.js';
import { endpoint, type Resource, subjectOf } from './endpoint.js';
import { checkProof, customerObject } from './login.js';
import { customer, id, named, time } from './schema/responses.js';
import { readSudo, sudoRequest } from './schema/requests.js';

const currentUser = named('CurrentUser', {
  id,
  name: z.string(),
  login: z.string(),
  customer_id: z.string(),
  role: z.string(),
  locked: z.boolean(),
  two_factor_auth_enabled: z.boolean(),
  two_factor_setup_required: z.boolean(),
  limit_services: z.boolean(),
  require_new_password: z.boolean(),
  created_at: time,
  updated_at: time,
  deleted_at: z.null(),
});

const currentCustomer = named('CurrentCustomer', customer.shape);

const verified = named('Verified', {
  customer,
  user: z.object({ id, name: z.string(), login: z.string() }),
  services: z.record(z.string(), z.string()).describe('Names by id'),
  token: z
    .object({ id, name: z.string(), created_at: time, expires_at: time.nullable(), scope: z.string() })
    .nullable()
    .describe('null for a session'),
});

const sudoGranted = named('SudoGranted', {
  expiry_time: time.describe('Until then, POST /tokens accepts the same credential in place of a login name'),
}); // prettier-ignore

/** Paths below these belong to the upstream. */
export const account = {
  tag: 'Account',
  description: 'The user of the credential, and confirming a password',
  base: (settings) => (settings.account ? '' : null),
  endpoints: [
    endpoint({
      name: 'show_current_user',
      method: 'GET',
      path: '/current_user',
      credential: 'session_or_token',
      action: 'account:read',
      summary: "Show the user of the request's credential",
      response: currentUser,
      handle: async (call) => ({ status: 200, json: userObject(subjectOf(call).user) }),
    }),
    endpoint({
      name: 'show_current_customer',
      method: 'GET',
      path: '/current_customer',
      credential: 'session_or_token',
      action: 'account:read',
      summary: "Show the customer of the request's credential",
      response: currentCustomer,
      handle: async (call, { directory }) => ({
        status: 200,
        json: await customerObject(directory, subjectOf(call).user),
      }),
    }),
    endpoint({
      name: 'verify',
      method: 'GET',
      path: '/verify',
      credential: 'session_or_token',
      action: 'account:read',
      summary: "Show the request's credential, its owner and its services",
      response: verified,
      handle: async (call, { directory }) => {
        const known = subjectOf(call);
        const { user } = known;
        const token = known.credential === 'session' ? null : known.token;
        return {
          status: 200,
          json: {
            customer: await customerObject(directory, user),
            user: { id: user.id, name: user.name, login: user.login },
            services: await namesOfServices(directory, user.customerId, token?.services ?? []),
            token: token === null ? null : {
              id: token.id,
              name: token.name,
              created_at: formatTime(token.createdAt),
              expires_at: token.expiresAt === null ? null : formatTime(token.expiresAt),
              scope: token.scopes.join(' '),
            },
          },
        };
      }, // prettier-ignore
    }),
    endpoint({
      name: 'sudo',
      method: 'POST',
      path: '/sudo',
      credential: 'optional',
      scopeAction: 'account:write',
      summary: 'Confirm a password',
      description:
        'For five minutes, `POST /tokens` with the same credential needs no login name. It still checks the password.',
      request: { schema: sudoRequest },
      otp: true,
      response: sudoGranted,
      codes: { 400: ['invalid_request', 'account_locked', '2fa.verify'], 403: ['invalid_grant'] },
      refusals: ['Throttled'],
      handle: async (call, services) => {
        const { sessions } = services;
        const { body, subject, now } = call;
        const attempt = readSudo(body);
        const grant = async (user: User) => {
          // Without a credential, there is nothing to attach the grant to.
          if (subject === null) return null;
          const granted = await reportingUnknown([sudoGrantedEvent(subject)], async () =>
            sessions.grantSudo(subject, user, now),
          );
          return granted === 'granted' ? null : granted;
        };
        const hasProof = attempt.login !== undefined || attempt.password !== undefined;
        const proof = { ...attempt, hasProof, caller: subject?.user };
        const checked = await checkProof(call, services, proof, 403, grant);
        if ('refusal' in checked) return checked;
        return {
          status: 200,
          json: { expiry_time: formatTime(sessions.sudoEndsAt(now)) },
          auditEvents:
            subject === null ? checked.auditEvents : [...checked.auditEvents, sudoGrantedEvent(subject)],
        };
      },
    }),
  ],
} as const satisfies Resource;

/** A service missing from the directory is named by its id. */
async function namesOfServices(directory: DirectoryStore, customerId: string, limit: readonly string[]): Promise<Record<string, string>> {
  const names = (await directory.listServices(customerId)).map(({ id, name }) => [id, name] as const);
  if (limit.length === 0) return Object.fromEntries(names);
  const known = new Map(names);
  return Object.fromEntries(limit.map((id) => [id, known.get(id) ?? id]));
} // prettier-ignore

/** In the form that clients of such interfaces expect: what Latchkey does not have is a constant. */
function userObject(user: User) {
  return {
    id: user.id,
    name: user.name,
    login: user.login,
    customer_id: user.customerId,
    role: user.role,
    locked: user.locked,
    two_factor_auth_enabled: user.otpSecret !== null,
    two_factor_setup_required: false,
    limit_services: false,
    require_new_password: false,
    created_at: formatTime(user.createdAt),
    updated_at: formatTime(user.updatedAt),
    deleted_at: null,
  };
}
