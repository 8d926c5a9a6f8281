import { z } from 'zod';
import type { Path } from './positions.js';
import type { Facts } from './schema/facts.js';

interface Definition {
  readonly shape?: Readonly<Record<string, unknown>>;
  readonly valueType?: unknown;
  readonly element?: unknown;
  readonly options?: readonly unknown[];
  readonly innerType?: unknown;
  readonly in?: unknown;
}

/** The schemas of a place, one inside the other, and those of each alternative. */
export type Layers = readonly z.ZodType[];

/** A key of a schema, with `*` for the names of a map and the entries of a list. */
export interface SchemaKey {
  readonly path: readonly string[];
  readonly facts: Facts;
}

/** Every key that a schema knows, each behind the one that it is below. */
export function keysOf(schema: z.ZodType): SchemaKey[] {
  const visit = (layers: Layers, path: readonly string[]): SchemaKey[] =>
    layers.flatMap((layer) => {
      const { shape = {}, valueType, element } = definitionOf(layer);
      const named = Object.entries(shape).flatMap(([name, each]) => {
        const below = layersOf(each);
        return [{ path: [...path, name], facts: factsOf(below) }, ...visit(below, [...path, name])];
      });
      return [...named, ...visit(layersOf(valueType ?? element), [...path, '*'])];
    });
  return visit(layersOf(schema), []);
}

/** Names of the keys that hold secrets, wherever they are. */
export function secretKeys(schema: z.ZodType): string[] {
  const secret = keysOf(schema).filter(({ facts }) => facts.secret === true);
  return [...new Set(secret.map(({ path }) => path.at(-1) ?? ''))];
}

/** Keys that a schema knows at a place. */
export function knownKeys(schema: z.ZodType, path: Path): string[] {
  return path
    .reduce(below, layersOf(schema))
    .flatMap((layer) => Object.keys(definitionOf(layer).shape ?? {}));
}

/** What may be written at a place, where the schema has an example. */
export function exampleAt(schema: z.ZodType, path: Path): string | undefined {
  return factsOf(path.reduce(below, layersOf(schema))).example;
}

/** Whether what stands at a place, or around it, is a secret by the schema. */
export function isSecret(schema: z.ZodType, path: Path): boolean {
  let layers = layersOf(schema);
  return path.some((step) => isSecretAt((layers = below(layers, step))));
}

/** Whether what stands at a place is a secret, whatever is around it. */
export function isSecretAt(layers: Layers): boolean {
  return layers.some((layer) => z.globalRegistry.get(layer)?.['secret'] === true);
}

/**
 * A copy of a value in which what stands at a key is replaced. Where it does not stand, the copy is the same.
 *
 * @param path as in {@link SchemaKey}
 */
export function replaceAt<T>(value: T, path: readonly string[], replace: (part: unknown) => unknown): T {
  const [step, ...rest] = path;
  if (step === undefined) return replace(value) as T;
  if (typeof value !== 'object' || value === null) return value;
  const copy = (part: unknown) => replaceAt(part, rest, replace);
  if (Array.isArray(value)) return (step === '*' ? value.map(copy) : value) as T;
  const entries = Object.entries(value).map(([name, part]) => [
    name,
    step === '*' || step === name ? copy(part) : part,
  ]);
  return Object.fromEntries(entries) as T;
}

/** What the schemas of a place say together. */
function factsOf(layers: Layers): Facts {
  return Object.assign({}, ...layers.map((layer) => z.globalRegistry.get(layer))) as Facts;
}

/** The schemas of what stands below a place. */
export function below(layers: Layers, step: PropertyKey): Layers {
  return layers.flatMap((layer) => {
    const { shape, valueType, element } = definitionOf(layer);
    const named = shape !== undefined && Object.hasOwn(shape, step) ? shape[String(step)] : undefined;
    return layersOf(named ?? valueType ?? element);
  });
}

/** A schema with what its defaults and transformations stand around, and its alternatives. */
export function layersOf(schema: unknown): Layers {
  if (schema === undefined) return [];
  const { innerType, in: input, options = [] } = definitionOf(schema);
  return [schema as z.ZodType, ...[innerType, input, ...options].flatMap(layersOf)];
}

function definitionOf(schema: unknown): Definition {
  return (schema as { def: Definition }).def;
}
