import type { z } from 'zod';
import type { GrantCode } from '../../domain/refusal.js';
import type { EndpointName } from '../../policy/endpoint-rule.js';
import * as shown from '../schema/answers.js';
import {
  createOwnTokenRequest,
  createTokenRequest,
  loginRequest,
  revokeTokensRequest,
  sudoRequest,
} from '../schema/requests.js';
import type { HeaderName } from './headers.js';
import type { RefusalName } from './refusals.js';

/** A group of operations, with what it is about. */
export const TAGS = {
  Tokens: 'API tokens: create, list, revoke',
  Sessions: 'Log in and out',
  Account: 'Who asks, and the confirmation of a password',
  Keys: 'What verifies the signed assertion that upstreams get',
  Page: 'What the web page asks for, under its own path',
  Interface: 'This document',
} as const;

const FORM = 'application/x-www-form-urlencoded';
const JSON_TYPE = 'application/json';

/** The body of a request. */
export interface Request {
  readonly schema: z.ZodObject;
  /** What it takes as well with a credential that confirmed the password lately, where there is POST /sudo. */
  readonly afterSudo?: z.ZodObject;
  readonly types: readonly string[];
}

/** What a client has to know of an own endpoint beyond its row in the table of own endpoints. */
export interface Operation {
  readonly tag: keyof typeof TAGS;
  readonly summary: string;
  readonly description?: string;
  readonly request?: Request;
  /** Whether it takes a one-time password. */
  readonly otp?: true;
  /** The body of its success; null when there is none, and the status is 204. */
  readonly answer: z.ZodType | null;
  /** Headers of its success besides those of every answer. */
  readonly headers?: readonly HeaderName[];
  /** The codes of its refusals, by status. */
  readonly codes?: Readonly<Partial<Record<400 | 401 | 403 | 422, readonly GrantCode[]>>>;
  /** Its refusals besides those that follow from its row. */
  readonly refusals?: readonly RefusalName[];
}

/** An operation that answers what the handler of its endpoint does. */
interface OperationOf<Json> extends Operation {
  readonly answer: [Json] extends [undefined] ? null : z.ZodType<Json>;
}

/** Every operation; null for what is served to browsers and is no part of the interface. */
export const OPERATIONS: { readonly [Name in EndpointName]: OperationOf<shown.Answers[Name]> | null } = {
  login: {
    tag: 'Sessions',
    summary: 'Log in',
    description: 'Gives a session in a cookie. Each login gives a new one and ends the one that was sent.',
    request: { schema: loginRequest, types: [JSON_TYPE, FORM] },
    otp: true,
    answer: shown.loggedIn,
    headers: ['Set-Cookie'],
    codes: { 400: ['invalid_request', 'account_locked', '2fa.verify'], 401: ['invalid_grant'] },
    refusals: ['Throttled'],
  },
  logout: {
    tag: 'Sessions',
    summary: 'Log out',
    description: 'Ends the session that asks.',
    answer: null,
    headers: ['Set-Cookie'],
  },
  create_token: {
    tag: 'Tokens',
    summary: 'Create a token',
    description: 'The answer is the only one that ever holds the secret.',
    request: { schema: createTokenRequest, afterSudo: createOwnTokenRequest, types: [JSON_TYPE, FORM] },
    otp: true,
    answer: shown.createdToken,
    codes: {
      400: ['invalid_request', 'invalid_grant', 'account_locked', '2fa.verify', 'invalid_scope'],
      422: ['Unprocessable Entity'],
    },
    refusals: ['Unauthenticated', 'Throttled'],
  },
  list_tokens: {
    tag: 'Tokens',
    summary: 'List the tokens of the user',
    description: 'The oldest first.',
    answer: shown.token.array(),
  },
  list_customer_tokens: {
    tag: 'Tokens',
    summary: 'List the tokens of every user of the own customer',
    description: 'The oldest first. `id` is the id of the own customer.',
    answer: shown.token.array(),
  },
  revoke_tokens: {
    tag: 'Tokens',
    summary: 'Revoke several tokens, all of them or none',
    request: { schema: revokeTokensRequest, types: [JSON_TYPE, 'application/vnd.api+json'] },
    answer: null,
    refusals: ['NotFound'],
  },
  show_own_token: {
    tag: 'Tokens',
    summary: 'Show the token that asks',
    answer: shown.token,
    refusals: ['NotFound'],
  },
  revoke_own_token: {
    tag: 'Tokens',
    summary: 'Revoke the token that asks',
    answer: null,
    refusals: ['NotFound'],
  },
  show_token: {
    tag: 'Tokens',
    summary: 'Show a token of the own customer',
    answer: shown.token,
    refusals: ['NotFound'],
  },
  revoke_token: {
    tag: 'Tokens',
    summary: 'Revoke a token',
    description: "Another user's token needs the action `customer_token:write` too.",
    answer: null,
    refusals: ['NotFound'],
  },
  list_sessions: {
    tag: 'Page',
    summary: "List the user's own sessions",
    answer: shown.session.array(),
  },
  end_session: {
    tag: 'Page',
    summary: "End one of the user's own sessions",
    answer: null,
    refusals: ['NotFound'],
  },
  end_other_sessions: {
    tag: 'Page',
    summary: "End all of the user's sessions but the one that asks",
    answer: null,
  },
  // Documents and scripts for browsers; their names change with each version.
  show_page: null,
  show_page_asset: null,
  describe_caller: {
    tag: 'Page',
    summary: 'Tell who is logged in, and what applies to that user',
    answer: shown.caller,
  },
  list_people: {
    tag: 'Page',
    summary: 'List the users of the own customer',
    answer: shown.person.array(),
  },
  show_signing_keys: {
    tag: 'Keys',
    summary: 'Show the keys that verify assertions',
    description: 'A JSON Web Key Set (RFC 7517). It may be kept as long as `Cache-Control` says.',
    answer: shown.signingKeys,
  },
  show_interface: {
    tag: 'Interface',
    summary: 'Show this document',
    answer: shown.openApi,
  },
  show_current_user: {
    tag: 'Account',
    summary: 'Show the user of the credential that asks',
    answer: shown.currentUser,
  },
  show_current_customer: {
    tag: 'Account',
    summary: 'Show the customer of the credential that asks',
    answer: shown.currentCustomer,
  },
  verify: {
    tag: 'Account',
    summary: 'Show the credential that asks, whose it is and what it reaches',
    answer: shown.verified,
  },
  sudo: {
    tag: 'Account',
    summary: 'Confirm a password',
    description:
      'For five minutes `POST /tokens` needs no login name with the credential that was sent. The password is checked again there.',
    request: { schema: sudoRequest, types: [JSON_TYPE, FORM] },
    otp: true,
    answer: shown.sudoGranted,
    codes: { 400: ['invalid_request', 'account_locked', '2fa.verify'], 403: ['invalid_grant'] },
    refusals: ['Throttled'],
  },
};
