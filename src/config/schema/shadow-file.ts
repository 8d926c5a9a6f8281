import { z } from 'zod';
import { defaultRouteSchema, policySchema, routeSchema } from './policy.js';

export const shadowSchema = z
  .strictObject({
    policy: policySchema.optional().describe('What roles and scopes may do'),
    routes: z.array(routeSchema).optional().describe('The action of each request, by path and method'),
    default_route: defaultRouteSchema.optional().describe('What happens to requests that match no route'),
  })
  .refine(
    (sections) => Object.keys(sections).length > 0,
    'expected policy, routes or default_route; the file has none of them',
  );
