import { z } from 'zod';
import { NAMED } from '../schema/named.js';

/** A value of a JSON document. */
export type Json = Readonly<Record<string, unknown>>;

const AS_SENT = {
  io: 'input',
  override: ({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }) => {
    // What is read-only here is what TypeScript means by it.
    delete jsonSchema.readOnly;
  },
} as const;

/**
 * The named schemas that some parts of the document refer to, as JSON Schema (2020-12, which is what OpenAPI 3.1 takes).
 * Objects may get more fields in later versions.
 */
export function schemasOf(...parts: Json[]): Json {
  const { schemas } = z.toJSONSchema(NAMED, { ...AS_SENT, uri: refTo });
  const text = JSON.stringify(parts);
  const used = Object.keys(schemas).filter((name) => text.includes(`"${refTo(name)}"`));
  return Object.fromEntries(used.toSorted().map((name) => [name, bare(schemas[name] ?? {})]));
}

/** A schema without a name. */
export function schemaOf(schema: z.ZodType): Json {
  return bare(z.toJSONSchema(schema, AS_SENT));
}

/** A reference to a named schema, or a list of what it is. */
export function schemaRef(schema: z.ZodType): Json {
  if (schema instanceof z.ZodArray) return { type: 'array', items: schemaRef(schema.element as z.ZodType) };
  const name = NAMED.get(schema)?.id;
  if (name === undefined) throw new Error('a schema of the interface has no name');
  return { $ref: refTo(name) };
}

function refTo(name: string): string {
  return `#/components/schemas/${name}`;
}

/** It is a part of the document, which says for all of them what they are. */
function bare(schema: z.core.JSONSchema.BaseSchema): Json {
  const { $schema: _schema, $id: _id, ...rest } = schema;
  return rest;
}
