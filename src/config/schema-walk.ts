import { z } from 'zod';
import type { Path } from './yaml.js';
import type { Facts } from './schema/units.js';

interface Definition {
  readonly shape?: Readonly<Record<string, unknown>>;
  readonly valueType?: unknown;
  readonly element?: unknown;
  readonly options?: readonly unknown[];
  readonly innerType?: unknown;
  readonly in?: unknown;
}

/** The schemas at a path, from the outermost inwards, including those of each alternative. */
export type SchemaLayers = readonly z.ZodType[];

/** A key of a schema, with `*` for the keys of a map and the items of a list. */
export interface SchemaKey {
  readonly path: readonly string[];
  readonly facts: Facts;
}

export function keysOf(schema: z.ZodType): SchemaKey[] {
  const visit = (layers: SchemaLayers, path: readonly string[]): SchemaKey[] =>
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

export function secretKeys(schema: z.ZodType): string[] {
  const secret = keysOf(schema).filter(({ facts }) => facts.secret === true);
  return [...new Set(secret.map(({ path }) => path.at(-1) ?? ''))];
}

export function knownKeys(schema: z.ZodType, path: Path): string[] {
  return path
    .reduce(below, layersOf(schema))
    .flatMap((layer) => Object.keys(definitionOf(layer).shape ?? {}));
}

export function exampleAt(schema: z.ZodType, path: Path): string | undefined {
  return factsOf(path.reduce(below, layersOf(schema))).example;
}

/** Whether the schema has a list at a path, at least as an alternative. */
export function holdsList(schema: z.ZodType, path: Path): boolean {
  return path.reduce(below, layersOf(schema)).some((layer) => definitionOf(layer).element !== undefined);
}

/** Whether the schema marks the value at a path, or one that contains it, as a secret. */
export function isSecret(schema: z.ZodType, path: Path): boolean {
  let layers = layersOf(schema);
  return path.some((step) => isSecretAt((layers = below(layers, step))));
}

/** Whether these schemas mark a value as a secret, regardless of what contains it. */
export function isSecretAt(layers: SchemaLayers): boolean {
  return layers.some((layer) => z.globalRegistry.get(layer)?.['secret'] === true);
}

export function hasSecretPathAt(layers: SchemaLayers): boolean {
  return factsOf(layers).secret === 'path';
}

/** Returns a copy of a value with the part at a path, as in {@link SchemaKey}, replaced. */
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

function factsOf(layers: SchemaLayers): Facts {
  return Object.assign({}, ...layers.map((layer) => z.globalRegistry.get(layer))) as Facts;
}

export function below(layers: SchemaLayers, step: PropertyKey): SchemaLayers {
  return layers.flatMap((layer) => {
    const { shape, valueType, element } = definitionOf(layer);
    const named = shape !== undefined && Object.hasOwn(shape, step) ? shape[String(step)] : undefined;
    return layersOf(named ?? valueType ?? element);
  });
}

/** Returns a schema, those that its defaults and transformations wrap, and its alternatives. */
export function layersOf(schema: unknown): SchemaLayers {
  if (schema === undefined) return [];
  const { innerType, in: input, options = [] } = definitionOf(schema);
  return [schema as z.ZodType, ...[innerType, input, ...options].flatMap(layersOf)];
}

function definitionOf(schema: unknown): Definition {
  return (schema as { def: Definition }).def;
}
