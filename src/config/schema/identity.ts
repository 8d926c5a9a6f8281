import { z } from 'zod';
import { fieldName, flag } from './units.js';

const identityHeader = (name: string) => fieldName.nullable().default(name);

/** What upstreams are told of the caller. */
export const identitySchema = z.strictObject({
  headers: z
    .strictObject({
      user_id: identityHeader('X-Auth-User-Id'),
      customer_id: identityHeader('X-Auth-Customer-Id'),
      login: identityHeader('X-Auth-Login'),
      role: identityHeader('X-Auth-Role'),
      scope: identityHeader('X-Auth-Scope'),
      services: identityHeader('X-Auth-Services'),
      credential: identityHeader('X-Auth-Credential'),
      token_id: identityHeader('X-Auth-Token-Id'),
    })
    .prefault({}),
  forward_credentials: flag.default(false),
  assertion: z.looseObject({ enabled: flag.default(false) }).prefault({}),
});
