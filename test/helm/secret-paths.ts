import { jsonSchemaOf } from '../../src/commands/check.js';
import { isSecret } from '../../src/config/schema-walk.js';
import { configSchema } from '../../src/config/schema/config.js';

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
}

/** Stands for a name that the operator chooses, like that of an upstream. */
export const NAME = 'api';

/** The path of every configuration key that takes a string, like `upstreams.api.url`. */
export function textPaths(): string[] {
  const found = new Set<string>();
  const walk = (schema: Schema, path: readonly string[]): void => {
    if (schema.type === 'string') found.add(path.join('.'));
    for (const [key, each] of Object.entries(schema.properties ?? {})) walk(each, [...path, key]);
    if (typeof schema.additionalProperties === 'object') walk(schema.additionalProperties, [...path, NAME]);
    if (schema.items !== undefined) walk(schema.items, [...path, '0']);
    for (const each of [schema.anyOf, schema.oneOf, schema.allOf].flatMap((all) => all ?? []))
      walk(each, path);
  };
  walk(jsonSchemaOf('config') as Schema, []);
  return [...found];
}

/** The paths that the schema marks as secret. */
export function secretPaths(): string[] {
  return textPaths().filter((path) => isSecret(configSchema, path.split('.')));
}

/** Returns a partial configuration with a value at a path. */
export function valueAt(path: string, value: unknown): Record<string, unknown> {
  const wrap = (each: unknown, key: string): unknown => (key === '0' ? [each] : { [key]: each });
  const part = path.split('.').reduceRight(wrap, value) as Record<string, unknown>;
  const { store } = part;
  // The keys of a store depend on its type.
  return typeof store === 'object' && path !== 'store.type' ? { store: { type: 'redis', ...store } } : part;
}
