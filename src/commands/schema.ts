import { z } from 'zod';
import { directorySchema } from '../config/schema/directory-file.js';
import { configSchema } from '../config/schema/config.js';
import { shadowSchema } from '../config/schema/shadow-file.js';
import type { Facts } from '../config/schema/facts.js';
import { expectSchema } from '../config/expect.js';
import type { SchemaKind } from './schema-kinds.js';
import { asJson } from './terminal/output.js';
import { print } from './terminal/print.js';

const SCHEMAS: Readonly<Record<SchemaKind, z.ZodType>> = {
  config: configSchema,
  directory: directorySchema,
  expect: expectSchema,
  shadow: shadowSchema,
};

/** Facts that only Latchkey uses; editors do not know them. */
const FACTS: Readonly<Record<keyof Facts, true>> = {
  restart: true,
  secret: true,
  path: true,
  written: true,
  example: true,
};

export function printSchema(kind: SchemaKind): void {
  print(asJson(jsonSchemaOf(kind)));
}

/** Returns the JSON Schema for the content of a file. */
export function jsonSchemaOf(kind: SchemaKind): z.core.JSONSchema.BaseSchema {
  const json = z.toJSONSchema(SCHEMAS[kind], {
    io: 'input',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      for (const name of Object.keys(FACTS)) delete jsonSchema[name];
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
