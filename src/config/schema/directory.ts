import { z } from 'zod';
import { filePath, timeLimit } from './units.js';
import { sourceUrl } from './urls.js';

/** Where users come from. */
export const directorySchema = z
  .strictObject({
    file: filePath
      .nullable()
      .default(null)
      .describe('Customers, users, services and legacy keys, applied at start and on reload'),
    http: z
      .strictObject({
        url: sourceUrl.describe('Receives {login, password, otp} by POST at each login'),
        timeout: timeLimit.prefault('5s').describe('Timeout of a whole answer'),
      })
      .nullable()
      .prefault(null)
      .describe('An API that knows the users'),
  })
  .refine(({ file, http }) => file === null || http === null, 'give either file or http, not both');
