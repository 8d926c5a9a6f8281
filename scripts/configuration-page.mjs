#!/usr/bin/env node
// Writes docs/configuration.md from the configuration schema (`npm run docs:config`). With --check,
// only reports whether the page is up to date. A key without a description is an error either way.
import { readFileSync, writeFileSync } from 'node:fs';
import { format, resolveConfig } from 'prettier';
import { stringify } from 'yaml';
import { built } from '../bench/lib/built.mjs';

/**
 * A JSON Schema, limited to the features used in configurations.
 *
 * @typedef {{
 *   readonly type?: string,
 *   readonly description?: string,
 *   readonly default?: unknown,
 *   readonly const?: string | number | boolean,
 *   readonly enum?: readonly string[],
 *   readonly pattern?: string,
 *   readonly minimum?: number,
 *   readonly maximum?: number,
 *   readonly properties?: Readonly<Record<string, Schema>>,
 *   readonly required?: readonly string[],
 *   readonly additionalProperties?: Schema | boolean,
 *   readonly items?: Schema,
 *   readonly anyOf?: readonly Schema[],
 *   readonly oneOf?: readonly Schema[],
 * }} Schema
 */

const { jsonSchemaOf } = await built('commands/check');
const { keysOf, secretKeys } = await built('config/schema-walk');
const { configSchema } = await built('config/schema/config');
const { directorySchema } = await built('config/schema/directory-file');

const PAGE = 'docs/configuration.md';
const DURATION = 'A duration: 250ms, 30s, 15m, 12h, 7d';
const SIZE = 'A size: 512B, 64KiB, 1MiB, 1GiB';
/** Longer defaults are shown below the table. */
const LONG = 48;
const WIDE = 100;
const REQUIRED = '**required**';
const RESTART_KEYS = keysOf(configSchema).filter(({ facts }) => facts.restart !== undefined);

/** Pages with more about a section. */
const MORE = new Map(
  Object.entries({
    listen: 'security.md#tls-and-http2-to-clients',
    admin: 'operating.md#is-it-ready',
    decision: 'decision-endpoint.md',
    workers: 'operating.md#processes',
    identity: 'identity.md',
    log: 'observability.md#logs',
    tracing: 'observability.md#traces',
    interface: 'interface.md',
    store: 'storage.md',
    on_store_failure: 'storage.md#when-redis-is-unavailable',
    cache: 'storage.md#the-cache',
    directory: 'accounts.md',
    tokens: 'tokens.md',
    limits: 'limits.md',
    cors: 'clients.md#cors-allow-pages-of-other-origins',
    login: 'accounts.md#log-in-at-an-identity-provider',
    on_unauthenticated: 'accounts.md#send-browsers-to-the-login',
    jwt_issuers: 'accounts.md#accept-jwts-from-other-issuers',
    webhooks: 'webhooks.md',
    proxy: 'limits.md#streams',
    audit: 'audit.md',
    upstreams: 'upstreams.md',
    policy: 'policy.md#routes-and-actions',
    routes: 'policy.md#policy-cookbook',
    policy_shadow: 'policy.md#change-the-policy-without-fear',
  }),
);

const HEAD = `<!-- Written by "npm run docs:config" from src/config/schema. Change it there. -->

# Configuration

Every key of the configuration file, with its default and its meaning. To start from a complete file,
copy [config/latchkey.yaml](../config/latchkey.yaml). For your editor, \`latchkey schema\` prints a
JSON Schema.

The file is YAML. The smallest working file is:

\`\`\`yaml
upstream: http://127.0.0.1:3000
\`\`\`

- **Check a file**: \`latchkey check --config FILE\` reports each error with its line and column.
  Unknown and duplicate keys are errors.
- **YAML** is version 1.2, so \`yes\` and \`off\` are text. Aliases, merge keys and type tags are errors.
- **Durations** are written like \`250ms\`, \`30s\`, \`15m\`, \`12h\` or \`7d\`, and **sizes** like \`512B\`,
  \`64KiB\`, \`1MiB\` or \`1GiB\`.
- **Variables**: \`\${NAME}\` stands for an environment variable, \`\${NAME:-default}\` for one that may be
  unset or empty, and \`\${file:/run/secrets/x}\` for the text of a file. Where a list belongs,
  \`\${LIST}\` alone is split at commas. For a literal \`\${\`, write \`$\${\`. In a directory file, you
  can use them only in secrets: ${secretKeys(directorySchema).map(code).join(', ')}.
- **File paths** are relative to the folder of the configuration file.
- A [reload](operating.md#reload) applies a change of a key, unless its meaning ends with _Restart_.
- In key names, \`NAME\` stands for a name of your choice, and \`[]\` for each entry of a list.
`;

/** @type {string[]} */
const missing = [];

const { properties = {} } = /** @type {Schema} */ (jsonSchemaOf('config'));
const { upstream: _short, ...sections } = properties;
const style = { ...(await resolveConfig(PAGE)), parser: 'markdown' };
const wrapped = await format(
  [HEAD, overview(), ...Object.entries(sections).map(([name, schema]) => section(name, schema))].join('\n'),
  { ...style, proseWrap: 'always', printWidth: WIDE, embeddedLanguageFormatting: 'off' },
);
const text = await format(wrapped, style);
if (missing.length > 0) fail(`add .describe() in src/config/schema to these keys: ${missing.join(', ')}`);
if (process.argv.includes('--check')) {
  if (readFileSync(PAGE, 'utf8') !== text) fail(`${PAGE} is out of date; run npm run docs:config`);
} else writeFileSync(PAGE, text);

/** @param {string} message */
function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exitCode = 1;
}

function overview() {
  return `${Object.keys(sections)
    .map((name) => `[${name}](#${name})`)
    .join(', ')}\n`;
}

/** @typedef {string[]} Cells of a row of a table */

/**
 * @param {string} name
 * @param {Schema} schema
 */
function section(name, schema) {
  /** @type {Cells[]} */
  const rows = [];
  /** @type {string[]} */
  const long = [];
  const branches = (schema.oneOf ?? []).filter(({ properties }) => properties !== undefined);
  if (branches.length > 0) {
    return [`## ${name}\n\n${about(name, schema)}`, ...branches.map((branch) => variant(name, branch))].join(
      '\n',
    );
  }
  if (isLeaf(schema) || isChoice(schema)) rows.push(row([name], schema, true, long));
  collect([name], schema, rows, long);
  return [`## ${name}\n\n${about(name, schema)}`, ...(rows.length > 0 ? [keys(rows)] : []), ...long].join(
    '\n',
  );
}

/**
 * Returns one variant of a section; its type tells the variants apart.
 *
 * @param {string} name
 * @param {Schema} schema
 */
function variant(name, schema) {
  /** @type {Cells[]} */
  const rows = [];
  /** @type {string[]} */
  const long = [];
  const { type = {}, ...others } = schema.properties ?? {};
  collect([name], { ...schema, properties: others }, rows, long);
  return [
    `### ${name} of type ${type.const}\n\n${sentence(type.description ?? '')}\n`,
    keys(rows),
    ...long,
  ].join('\n');
}

/**
 * @param {string} name
 * @param {Schema} schema
 */
function about(name, schema) {
  const { description } = schema;
  if (description === undefined) missing.push(name);
  const link = MORE.get(name);
  const more = link === undefined ? '' : ` More: [${link.split('#')[0]}](${link}).`;
  const { type } = /** @type {{ type?: string }} */ (schema.default ?? {});
  const without = type === undefined ? '' : ` Default: ${code(`type: ${type}`)}.`;
  return `${sentence(description ?? '')}${without}${more}\n`;
}

/**
 * Adds the rows of the keys below a path.
 *
 * @param {string[]} path
 * @param {Schema} schema
 * @param {Cells[]} rows
 * @param {string[]} long
 */
function collect(path, schema, rows, long) {
  const forms = formsOf(schema);
  const isOneForm = forms.filter(({ properties }) => properties !== undefined).length === 1;
  for (const each of forms) {
    for (const [key, value] of Object.entries(each.properties ?? {})) {
      const here = [...path, key];
      if (Object.keys(value).length === 0) continue;
      const required = isOneForm && each.required?.includes(key) === true;
      const preset = /** @type {Record<string, unknown> | undefined} */ (each.default)?.[key];
      const known = preset === undefined ? value : { ...value, default: preset };
      if (isLeaf(value) || isChoice(value)) rows.push(row(here, known, required, long));
      // A route's own rules have the keys of the top-level ones.
      if (key !== 'cors') collect(here, value, rows, long);
    }
    // A loose object has {} here: its keys are not fixed.
    const { additionalProperties: entry } = each;
    if (typeof entry === 'object' && Object.keys(entry).length > 0)
      collect([...path, 'NAME'], entry, rows, long);
    if (typeof each.items === 'object')
      collect([...path.slice(0, -1), `${path.at(-1)}[]`], each.items, rows, long);
  }
}

/**
 * Returns the forms that a value may have, the schema itself included.
 *
 * @param {Schema} schema
 * @returns {Schema[]}
 */
function formsOf(schema) {
  return [schema, ...[...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap(formsOf)];
}

/**
 * Returns whether a key has a value of its own and not only keys below it.
 *
 * @param {Schema} schema
 * @returns {boolean}
 */
function isLeaf({ type, properties, additionalProperties, anyOf, items }) {
  if (anyOf !== undefined) return anyOf.some(isLeaf) || anyOf.some(({ type: each }) => each === 'null');
  if (type === 'array') return items?.properties === undefined;
  return (
    properties === undefined && (typeof additionalProperties !== 'object' || isLeaf(additionalProperties))
  );
}

/**
 * Returns whether a key is a map or list with a built-in default, which is replaced as a whole.
 *
 * @param {Schema} schema
 */
function isChoice({ additionalProperties, items, default: value }) {
  return (
    (typeof additionalProperties === 'object' || items !== undefined) && Object.keys(value ?? {}).length > 0
  );
}

/**
 * @param {string[]} path
 * @param {Schema} schema
 * @param {boolean} required
 * @param {string[]} long
 * @returns {Cells}
 */
function row(path, schema, required, long) {
  const name = path.join('.');
  const { description } = schema;
  const meaning = [description, schema.items?.description].find(
    (text) => text !== undefined && ![DURATION, SIZE].includes(text),
  );
  if (meaning === undefined) missing.push(name);
  // The paragraph above the table says what a section means.
  const said = path.length === 1 ? '' : (meaning ?? '');
  return [
    `\`${name}\``,
    valueOf(defaultOf(path, schema, required, long), typeOf(schema)),
    [said, effect(name)].filter(Boolean).join('. '),
  ];
}

/**
 * Returns the default of a key, and its type unless the default shows it.
 *
 * @param {string} preset
 * @param {string} type
 */
function valueOf(preset, type) {
  if (preset === '`null`') return `${preset} (${type.replace(/ or `null`$/, '')})`;
  const isShown = preset !== '' && preset !== REQUIRED;
  const isPlain = /^(?:text|duration|size|true or false|number|map|list of (?:text|maps))$/.test(type);
  return isShown && isPlain ? preset : `${preset} (${type})`.trim();
}

/**
 * @param {Schema} schema
 * @returns {string}
 */
function typeOf(schema) {
  const { type, anyOf, const: only, enum: some, items, pattern, minimum, maximum } = schema;
  if (anyOf !== undefined)
    return anyOf
      .map(typeOf)
      .filter((text, i, all) => all.indexOf(text) === i)
      .join(' or ');
  if (only !== undefined) return code(only);
  // The registered methods, of which there are dozens.
  if (some?.includes('PROPFIND')) return 'methods';
  if (some !== undefined) return some.map(code).join(', ');
  if (type === 'null') return '`null`';
  if (type === 'boolean') return 'true or false';
  if (type === 'integer') return `${minimum} to ${maximum}`;
  if (type === 'number') return 'number';
  if (type === 'array') return `list of ${items?.properties === undefined ? typeOf(items ?? {}) : 'maps'}`;
  if (type === 'object') return 'map';
  if (pattern?.endsWith('(ms|s|m|h|d)$')) return 'duration';
  if (pattern?.endsWith('(B|KiB|MiB|GiB)$')) return 'size';
  return 'text';
}

/**
 * @param {string[]} path
 * @param {Schema} schema
 * @param {boolean} required
 * @param {string[]} long
 */
function defaultOf(path, { default: value }, required, long) {
  if (value === undefined) return required ? REQUIRED : '';
  const text = flow(value);
  // A list member cannot be shown in the file without its required keys.
  if (text.length <= LONG || path.some((key) => key.endsWith('[]')))
    return code(typeof value === 'string' ? value : text);
  long.push(`${code(path.join('.'))}, built in:\n\n\`\`\`yaml\n${builtIn(path, value)}\n\`\`\`\n`);
  return 'see below';
}

/**
 * Formats a long default as it would be written in the file.
 *
 * @param {string[]} path
 * @param {unknown} value
 * @returns {string}
 */
function builtIn([key, ...rest], value) {
  return `${key}:\n${indent(rest.length > 0 ? builtIn(rest, value) : lines(value))}`;
}

/**
 * @param {unknown} value
 * @returns {string}
 */
function lines(value) {
  if (Array.isArray(value)) return value.map((entry) => `- ${flow(entry)}`).join('\n');
  return Object.entries(/** @type {Record<string, unknown>} */ (value))
    .map(([name, entry]) => {
      const key = /^\w+$/.test(name) ? name : `'${name}'`;
      const line = `${key}: ${flow(entry)}`;
      return line.length <= WIDE ? line : `${key}:\n${indent(lines(entry))}`;
    })
    .join('\n');
}

/** @param {string} text */
function indent(text) {
  return text.replaceAll(/^/gm, '  ');
}

/** @param {unknown} value */
function flow(value) {
  /** @type {import('yaml').ToStringOptions} */
  const style = {
    collectionStyle: 'flow',
    defaultStringType: 'QUOTE_SINGLE',
    defaultKeyType: 'PLAIN',
    lineWidth: 0,
  };
  return stringify(value, style).trim();
}

/**
 * Returns what a key says if a reload does not apply its change.
 *
 * @param {string} name
 */
function effect(name) {
  const at = RESTART_KEYS.findLast(({ path }) => `${name}.`.startsWith(`${path.join('.')}.`));
  if (at === undefined) return '';
  if (at.facts.restart === true) return '_Restart_';
  return at.path.join('.') === name ? 'To add or remove it: _Restart_' : '';
}

/** @param {Cells[]} rows */
function keys(rows) {
  return table(['key', 'default (type)', 'meaning'], rows);
}

/**
 * @param {Cells} heads
 * @param {Cells[]} rows
 */
function table(heads, rows) {
  return `${[line(heads), line(heads.map(() => '---')), ...rows.map(line)].join('\n')}\n`;
}

/** @param {Cells} cells */
function line(cells) {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** @param {string | number | boolean} value */
function code(value) {
  return `\`${value}\``;
}

/** @param {string} text */
function sentence(text) {
  return text === '' || text.endsWith('.') ? text : `${text}.`;
}
