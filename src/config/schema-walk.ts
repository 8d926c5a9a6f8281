import type { z } from 'zod';
import type { Path } from './positions.js';
import { SECRETS } from './schema/units.js';

/** What is looked at of a schema's definition. */
interface Definition {
  readonly shape?: Readonly<Record<string, unknown>>;
  readonly valueType?: unknown;
  readonly element?: unknown;
  readonly options?: readonly unknown[];
  readonly innerType?: unknown;
  readonly in?: unknown;
}

/** Keys that a schema knows at a place. */
export function knownKeys(schema: z.ZodType, path: Path): string[] {
  return layersAt(schema, path).flatMap((layer) => Object.keys(definitionOf(layer).shape ?? {}));
}

/** Whether what stands at a place, or around it, is a secret by the schema. */
export function isSecret(schema: z.ZodType, path: Path): boolean {
  return path.some((_, i) => layersAt(schema, path.slice(0, i + 1)).some((layer) => SECRETS.has(layer)));
}

/** Names of the keys that hold secrets, wherever they are. */
export function secretKeys(schema: z.ZodType): string[] {
  const names = new Set<string>();
  const visit = (below: readonly z.ZodType[]): void => {
    for (const layer of below) {
      const { shape = {}, valueType, element } = definitionOf(layer);
      for (const [name, each] of Object.entries(shape)) {
        const layers = layersOf(each);
        if (layers.some((inner) => SECRETS.has(inner))) names.add(name);
        visit(layers);
      }
      visit(layersOf(valueType ?? element));
    }
  };
  visit(layersOf(schema));
  return [...names];
}

/** The schemas of a place, one inside the other, and those of each alternative. */
function layersAt(schema: z.ZodType, path: Path): z.ZodType[] {
  let layers = layersOf(schema);
  for (const step of path)
    layers = layers.flatMap((layer) => {
      const { shape, valueType, element } = definitionOf(layer);
      return layersOf((shape !== undefined && Object.hasOwn(shape, step) ? shape[String(step)] : undefined) ?? valueType ?? element);
    });
  return layers;
} // prettier-ignore

/** A schema with what its defaults and transformations stand around, and its alternatives. */
function layersOf(schema: unknown): z.ZodType[] {
  if (schema === undefined) return [];
  const { innerType, in: input, options = [] } = definitionOf(schema);
  return [schema as z.ZodType, ...[innerType, input, ...options].flatMap(layersOf)];
}

function definitionOf(schema: unknown): Definition {
  return (schema as { def: Definition }).def;
}
