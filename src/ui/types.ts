import type { Caller } from '../endpoints/schema/responses.js';

export type {
  Caller,
  CreatedTokenObject as CreatedToken,
  LoginMethods,
  Person,
  SessionObject as Session,
  TokenObject as Token,
} from '../endpoints/schema/responses.js';

export type Service = Caller['services'][number];

export type Scope = Caller['scopes'][number];
