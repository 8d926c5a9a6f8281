import { z } from 'zod';
import { fieldName, flag } from './units.js';

const identityHeader = (name: string, what: string) => fieldName.nullable().default(name).describe(what);

/** What upstreams are told of the caller. */
export const identitySchema = z.strictObject({
  headers: z
    .strictObject({
      user_id: identityHeader('X-Auth-User-Id', 'The id of the user'),
      customer_id: identityHeader('X-Auth-Customer-Id', 'The id of the organisation'),
      login: identityHeader('X-Auth-Login', 'The login name'),
      role: identityHeader('X-Auth-Role', 'The role'),
      scope: identityHeader(
        'X-Auth-Scope',
        'The scopes of the token, separated by spaces; of a session the one that allows everything',
      ),
      services: identityHeader(
        'X-Auth-Services',
        'The services that the token is limited to, comma-separated; absent when it is not',
      ),
      credential: identityHeader('X-Auth-Credential', 'token, legacy_key or session'),
      token_id: identityHeader('X-Auth-Token-Id', 'The id of the token; absent for a session'),
    })
    .prefault({})
    .describe('The name of each header; null leaves it out'),
  forward_credentials: flag
    .default(false)
    .describe('Let the key, the one-time password and the session cookie through to the upstream'),
  assertion: z.looseObject({ enabled: flag.default(false) }).prefault({}),
});
