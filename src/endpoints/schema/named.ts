import { z } from 'zod';

/** The schemas that have names in the OpenAPI document. */
export const NAMED = z.registry<{ id: string }>();

/** Creates an object schema with a name in the OpenAPI document. */
export function named<Shape extends z.ZodRawShape>(id: string, shape: Shape) {
  return z.object(shape).register(NAMED, { id });
}
