import { z } from 'zod';
import type { LoginAttempt } from '../../accounts/login.js';
import {
  credentials,
  firstMistaken,
  readBy,
  type RestrictionChange,
  restrictionChange,
  restrictionParameters,
  tokenParameters,
} from '../../accounts/parameters.js';
import type { RotationRequest } from '../../accounts/token-rotations.js';
import { type Refusal, unprocessable, UNPROCESSABLE } from '../../domain/refusal.js';
import type { Body, Params } from '../../http/body.js';
import { NAMED, named } from './responses.js';

const MAX_BULK = 1_500;
const REVOKE_TOKENS_FORM = `expected a body like {"data":[{"type":"token","id":"..."}]}, with 1 to ${MAX_BULK} tokens`;

const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['false', false],
]);

const { login, password } = credentials.shape;
const { scope, expiresAt, services, name } = tokenParameters;

export const loginRequest = named('LoginRequest', {
  user: login.describe('The login name'),
  password: password.describe('At most 1024 bytes'),
});

const FRESH = 'not needed with a session from a fresh login at an OpenID Connect provider';

export const createTokenRequest = named('CreateTokenRequest', {
  username: login.optional().describe(`The login name of the user whom the token is for; not needed after \`POST /sudo\`, and ${FRESH}`),
  password: password.optional().describe(`At most 1024 bytes; ${FRESH}`),
  name: name.describe('What the token is for: 1 to 255 characters without control and invisible characters'),
  scope: scope.describe('One scope, or several separated by spaces'),
  'services[]': services.optional().describe('Restricts the token to these services'),
  services: services.optional().describe('The same as `services[]`'),
  service_id: services.in.element.optional().describe('Restricts the token to this service; adds to `services[]`'),
  expires_at: expiresAt
    .meta({ format: 'date-time', examples: ['2030-01-31T12:00:00Z'] })
    .describe('ISO 8601 with `Z` or an offset; the token is refused from that second on'),
  rate: restrictionParameters.rate.describe('Requests that the token may make per period of 1s to 31d'),
  'addresses[]': restrictionParameters.addresses.describe('Addresses and ranges of the clients that may use the token'),
  addresses: restrictionParameters.addresses.describe('The same as `addresses[]`'),
  suspended: restrictionParameters.suspended.describe('`true`: the token is refused until it is resumed'),
}); // prettier-ignore

export const sudoRequest = named('SudoRequest', {
  username: login.optional().describe("The login name; without it, the password is that of the request's credential"),
  password: password.optional().describe(`At most 1024 bytes; ${FRESH}`),
}); // prettier-ignore

export const rotateTokenRequest = named('RotateTokenRequest', {
  overlap: z
    .union([z.int().min(0), z.string().regex(/^\d{1,9}$/)])
    .optional()
    .describe('Seconds for which the old token is still accepted; 0 ends it at once'),
});

export const updateTokenRequest = restrictionChange.register(NAMED, { id: 'UpdateTokenRequest' });

/** A form can set limits but not remove them. */
export const updateTokenForm = named('UpdateTokenForm', {
  suspended: restrictionParameters.suspended,
  rate: restrictionParameters.rate,
  'addresses[]': restrictionParameters.addresses,
  addresses: restrictionParameters.addresses,
});

export const revokeTokensRequest = named('RevokeTokensRequest', {
  data: z
    .array(
      z.object({
        type: z.literal('token').optional(),
        id: z.string().describe('The id of the token, not its secret'),
      }),
    )
    .min(1)
    .max(MAX_BULK)
    .describe('All of them are revoked, or none'),
});

/** The values are checked together with the password. */
export function readLogin({ params }: Body): Pick<LoginAttempt, 'login' | 'password'> {
  return { login: params.one('user'), password: params.one('password') };
}

/** The token's parameters are checked after the password. */
export function readCreateToken(body: Body, query: string) {
  const { params } = body;
  const scopes = params.list('scope');
  const addresses = params.list('addresses');
  return {
    attempt: { login: params.one('username'), password: params.one('password') },
    /** Even in a form that is not understood. */
    namesUser: params.all('username').length > 0,
    request: {
      name: nameIn(body),
      scope: scopes.length === 0 ? undefined : scopes.join(' '),
      services: params.list('services', 'service_id'),
      expiresAt: onlyOne(params, 'expires_at'),
      restrictions: {
        rate: onlyOne(params, 'rate'),
        addresses: addresses.length === 0 ? undefined : addresses,
        suspended: onlyOne(params, 'suspended') as 'true' | undefined,
      },
      others: [
        ...params.otherThan(
          ['username', 'password', 'name', 'expires_at', 'rate', 'suspended'],
          ['scope', 'services', 'service_id', 'addresses'],
        ),
        ...namesIn(query),
      ],
    },
  };
}

/** The last of several. A JSON value that is not text becomes empty, which no check accepts. */
function nameIn({ params, json }: Body): string | undefined {
  const sent = params.all('name').at(-1);
  if (sent === undefined || typeof json !== 'object' || json === null) return sent;
  return 'name' in json && typeof json.name === 'string' ? sent : '';
}

export function readSudo({ params }: Body): Pick<LoginAttempt, 'login' | 'password'> {
  const [login, ...others] = params.all('username');
  // Several values do not name anyone.
  return { login: others.length > 0 ? '' : login, password: params.one('password') };
}

/** The values are checked after the permissions. */
export function readRotateToken({ params }: Body, query: string): RotationRequest {
  const others = [...params.otherThan(['overlap'], []), ...namesIn(query)];
  return { overlap: onlyOne(params, 'overlap'), others };
}

export function readUpdateToken({ json, params }: Body, query: string): RestrictionChange | Refusal {
  const misplaced = firstMistaken(namesIn(query));
  if (misplaced !== undefined) return unprocessable(misplaced);
  const change = json === undefined && params.size > 0 ? changeOf(params) : json;
  if (change === undefined)
    return { refusal: 'malformed', detail: 'expected a body like {"suspended":true,"rate":"600/1m"}' };
  const read = readBy(updateTokenRequest, change, UNPROCESSABLE);
  return 'refusal' in read ? read : read.value;
}

function changeOf(params: Params): Record<string, unknown> {
  const [suspended, rate] = [onlyOne(params, 'suspended'), onlyOne(params, 'rate')];
  const addresses = params.list('addresses');
  return {
    ...Object.fromEntries(params.otherThan(['suspended', 'rate'], ['addresses']).map((name) => [name, ''])),
    ...(suspended === undefined ? {} : { suspended: FLAGS.get(suspended) ?? suspended }),
    ...(rate === undefined ? {} : { rate }),
    ...(addresses.length === 0 ? {} : { addresses }),
  };
}

export function readRevokeTokens({ json }: Body): { readonly ids: readonly string[] } | Refusal {
  const read = revokeTokensRequest.safeParse(json);
  return read.success
    ? { ids: [...new Set(read.data.data.map(({ id }) => id))] }
    : { refusal: 'malformed', detail: REVOKE_TOKENS_FORM };
}

/** Empty when repeated, which no check accepts. */
function onlyOne(params: Params, name: string): string | undefined {
  const given = params.all(name);
  return given.length > 1 ? '' : given[0];
}

function namesIn(query: string): string[] {
  return [...new URLSearchParams(query).keys()];
}
