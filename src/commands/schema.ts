import { z } from 'zod';
import { directorySchema } from '../config/directory-schema.js';
import { configSchema } from '../config/schema.js';

/** `latchkey schema`: prints the JSON Schema of what may be written in a file. */
export function schema(kind: 'config' | 'directory'): void {
  const source = kind === 'config' ? configSchema : directorySchema;
  const json = z.toJSONSchema(source, { io: 'input', unrepresentable: 'any' });
  if (kind === 'config' && json.properties !== undefined) {
    json.properties['upstream'] = {
      type: 'string',
      description: 'Short for upstreams: { api: { url: ... } }',
    };
  }
  process.stdout.write(`${JSON.stringify(json, null, 2)}\n`);
}
