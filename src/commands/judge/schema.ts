import { z } from 'zod';
import { directorySchema } from '../../config/schema/directory-file.js';
import { configSchema } from '../../config/schema/config.js';
import { expectSchema } from '../../config/expect.js';
import { WrongUsage } from '../terminal/failure.js';

const SCHEMAS = { config: configSchema, directory: directorySchema, expect: expectSchema } as const;

/** Prints the JSON Schema of what may be written in a file. */
export function printSchema(kind: string): void {
  if (!(kind in SCHEMAS))
    throw new WrongUsage(`schema: expected ${Object.keys(SCHEMAS).join(', ')}, got ${kind}`);
  process.stdout.write(`${JSON.stringify(jsonSchemaOf(kind as keyof typeof SCHEMAS), null, 2)}\n`);
}

/** The JSON Schema of what may be written in a file. */
export function jsonSchemaOf(kind: keyof typeof SCHEMAS): z.core.JSONSchema.BaseSchema {
  const json = z.toJSONSchema(SCHEMAS[kind], { io: 'input', unrepresentable: 'any' });
  if (kind === 'config' && json.properties !== undefined) {
    json.properties['upstream'] = {
      type: 'string',
      description: 'Short for upstreams: { api: { url: ... } }',
    };
  }
  return json;
}
