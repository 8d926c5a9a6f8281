import type { z } from 'zod';
import { problem, unauthenticated } from '../schema/responses.js';
import type { EndpointRule } from '../../policy/route.js';
import type { HeaderName } from './headers.js';

export interface RefusalAnswer {
  readonly status: number;
  readonly description: string;
  readonly schema: z.ZodType;
  readonly headers?: readonly HeaderName[];
}

/** Of built-in endpoints, without a code. */
export const REFUSALS = {
  Malformed: { status: 400, description: 'The request is ambiguous or malformed', schema: problem },
  Unauthenticated: {
    status: 401,
    description: 'The credential is missing or invalid',
    schema: unauthenticated,
    headers: ['WWW-Authenticate'],
  },
  Forbidden: {
    status: 403,
    description:
      'The role or the scope does not allow it, the kind of credential is wrong, or the request came from another site',
    schema: problem,
  },
  NotFound: { status: 404, description: 'No such record exists', schema: problem },
  TooSlow: { status: 408, description: 'The request took too long to arrive', schema: problem },
  TooLarge: { status: 413, description: 'The body is too large', schema: problem },
  TargetTooLong: { status: 414, description: 'The request target is too long', schema: problem },
  ExpectationFailed: { status: 417, description: '`Expect` asks for more than `100-continue`', schema: problem },
  Throttled: {
    status: 429,
    description: 'Too many failed logins, or the token has reached its request rate',
    schema: problem,
    headers: ['Retry-After'],
  },
  HeadTooLarge: { status: 431, description: 'The header fields are too large', schema: problem },
  Fault: { status: 500, description: 'Internal error; the log has the cause', schema: problem },
  Unavailable: {
    status: 503,
    description: 'The store, the account source or a required audit log is unavailable, or the server is overloaded',
    schema: problem,
    headers: ['Retry-After'],
  },
} as const satisfies Record<string, RefusalAnswer>; // prettier-ignore

export type RefusalName = keyof typeof REFUSALS;

const EVERYWHERE: readonly RefusalName[] = [
  'Malformed',
  'TooSlow',
  'TooLarge',
  'TargetTooLong',
  'ExpectationFailed',
  'HeadTooLarge',
  'Fault',
  'Unavailable',
];

export function refusalsOf(credential: EndpointRule['credential'], method: string): RefusalName[] {
  const withCredential: RefusalName[] = [...EVERYWHERE, 'Unauthenticated', 'Forbidden'];
  // A token's request rate must not prevent a revocation.
  if (credential !== 'none') return method === 'DELETE' ? withCredential : [...withCredential, 'Throttled'];
  return method === 'GET' ? [...EVERYWHERE] : [...EVERYWHERE, 'Forbidden'];
}
