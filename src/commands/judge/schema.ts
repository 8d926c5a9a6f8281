import { z } from 'zod';
import { directorySchema } from '../../config/schema/directory-file.js';
import { configSchema } from '../../config/schema/config.js';
import { expectSchema } from '../../config/expect.js';

const SCHEMAS = { config: configSchema, directory: directorySchema, expect: expectSchema } as const;

/** A file of which there is a schema. */
export type SchemaKind = keyof typeof SCHEMAS;

/** Prints the JSON Schema of what may be written in a file. */
export function printSchema(kind: SchemaKind): void {
  process.stdout.write(`${JSON.stringify(jsonSchemaOf(kind), null, 2)}\n`);
}

/** The JSON Schema of what may be written in a file. */
export function jsonSchemaOf(kind: SchemaKind): z.core.JSONSchema.BaseSchema {
  const json = z.toJSONSchema(SCHEMAS[kind], { io: 'input', unrepresentable: 'any' });
  if (kind === 'config' && json.properties !== undefined) {
    json.properties['upstream'] = {
      type: 'string',
      description: 'Short for upstreams: { api: { url: ... } }',
    };
  }
  return json;
}
