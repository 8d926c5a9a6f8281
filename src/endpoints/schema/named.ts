import { z } from 'zod';

/** In the OpenAPI document. */
export const NAMED = z.registry<{ id: string }>();

export function named<Shape extends z.ZodRawShape>(id: string, shape: Shape) {
  return z.object(shape).register(NAMED, { id });
}
