#!/usr/bin/env node
// Writes the keys of the configuration into the chart's values.schema.json (`npm run docs:config`), so
// that Helm refuses an unknown one. With --check, only reports whether they are up to date. Every
// scalar may also be a string, because it can be an expression like ${PORT}.
import { readFileSync, writeFileSync } from 'node:fs';
import { format, resolveConfig } from 'prettier';
import { built } from '../bench/lib/built.mjs';

/**
 * @typedef {{
 *   type?: string | string[], const?: unknown, properties?: Record<string, Schema>, items?: Schema,
 *   additionalProperties?: Schema | boolean, anyOf?: Schema[], oneOf?: Schema[],
 * }} Schema
 */

const FILE = 'helm/latchkey/values.schema.json';
const { jsonSchemaOf } = await built('commands/check');

const before = readFileSync(FILE, 'utf8');
const schema = JSON.parse(before);
schema.definitions = { config: shapeOf(jsonSchemaOf('config')), shadow: shapeOf(jsonSchemaOf('shadow')) };
const after = await format(JSON.stringify(schema), { ...(await resolveConfig(FILE)), filepath: FILE });
if (!process.argv.includes('--check')) writeFileSync(FILE, after);
else if (after !== before) {
  process.stderr.write(`${FILE} is behind src/config/schema: npm run docs:config\n`);
  process.exitCode = 1;
}

/**
 * Returns the keys and kinds of values that a schema accepts. The chart completes sections, so no key
 * is required.
 *
 * @param {Schema} schema
 * @returns {Schema}
 */
function shapeOf({ type, const: only, properties, items, additionalProperties: others, anyOf, oneOf }) {
  const kinds = (anyOf ?? oneOf)?.map(shapeOf);
  if (kinds !== undefined)
    return kinds.every((kind) => Object.keys(kind).join('') === 'type')
      ? { type: [...new Set(kinds.flatMap((kind) => kind.type ?? []))] }
      : { anyOf: kinds };
  if (typeof only === 'string') return { const: only };
  if (type === 'array') return { type, ...(items === undefined ? {} : { items: shapeOf(items) }) };
  if (type !== 'object') return type === 'string' || type === 'null' || type === undefined ? { type: type ?? 'string' } : { type: [String(type), 'string'] };
  const shapes = Object.entries(properties ?? {}).map(([key, each]) => [key, shapeOf(each)]);
  return {
    type,
    ...(shapes.length === 0 ? {} : { properties: Object.fromEntries(shapes) }),
    additionalProperties: typeof others === 'object' ? shapeOf(others) : (others ?? false),
  };
} // prettier-ignore
