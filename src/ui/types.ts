import type { Caller } from '../endpoints/schema/answers.js';

export type {
  Caller,
  CreatedTokenObject as CreatedToken,
  LoginMethods,
  Person,
  SessionObject as Session,
  TokenObject as Token,
} from '../endpoints/schema/answers.js';

/** A service that a token can be restricted to. */
export type Service = Caller['services'][number];

/** A scope with what it means. */
export type Scope = Caller['scopes'][number];
