import { z } from 'zod';
import { directorySchema } from '../config/schema/directory-file.js';
import { configSchema } from '../config/schema/config.js';
import { shadowSchema } from '../config/schema/shadow-file.js';
import type { Facts } from '../config/schema/facts.js';
import { expectSchema } from '../config/expect.js';
import type { SchemaKind } from './schema-kinds.js';

const SCHEMAS: Readonly<Record<SchemaKind, z.ZodType>> = {
  config: configSchema,
  directory: directorySchema,
  expect: expectSchema,
  shadow: shadowSchema,
};

export function printSchema(kind: SchemaKind): void {
  process.stdout.write(`${JSON.stringify(jsonSchemaOf(kind), null, 2)}\n`);
}

/** The JSON Schema of what may be written in a file. */
export function jsonSchemaOf(kind: SchemaKind): z.core.JSONSchema.BaseSchema {
  const json = z.toJSONSchema(SCHEMAS[kind], {
    io: 'input',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      // Facts for Latchkey itself, which no editor knows.
      for (const name of ['restart', 'secret', 'path', 'example'] satisfies (keyof Facts)[])
        delete jsonSchema[name];
    },
  });
  if (kind === 'config' && json.properties !== undefined) {
    json.properties['upstream'] = {
      type: 'string',
      description: 'Short for upstreams: { api: { url: ... } }; http://, https:// or unix:///PATH',
    };
  }
  return json;
}
