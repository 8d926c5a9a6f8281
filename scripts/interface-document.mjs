#!/usr/bin/env node
// Writes docs/openapi.json, which describes the interface with everything that the configuration
// can enable, under the default names. Generates the types of the example client from it (`npm run
// docs:openapi`). With --check, only reports whether both are up to date.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { built } from '../bench/lib/built.mjs';
import { needNpmPackages } from '../test/helpers/packages.mjs';

const { configSchema } = await built('config/schema/config');
const { interfaceDocument } = await built('endpoints/openapi/document');
const { interfaceSettings } = await built('server/interface-document');

const packages = needNpmPackages(join(import.meta.dirname, 'openapi-types'));
const { default: openapiTypes, astToString } = createRequire(join(packages, 'package.json'))(
  'openapi-typescript',
);

const FULLEST = {
  interface: { account_endpoints: true },
  identity: { assertion: { enabled: true } },
};

const config = configSchema.parse({ upstreams: { api: { url: 'http://127.0.0.1:3000' } }, ...FULLEST });
const document = interfaceDocument(interfaceSettings(config));
const types = astToString(await openapiTypes(JSON.stringify(document)));
await keep('docs/openapi.json', JSON.stringify(document));
await keep(
  'examples/client/latchkey.d.ts',
  `// Written by "npm run docs:openapi" from docs/openapi.json.\n\n${types}`,
);

/**
 * Writes a file, or reports that it is out of date.
 *
 * @param {string} file
 * @param {string} content
 */
async function keep(file, content) {
  const text = await format(content, { ...(await resolveConfig(file)), filepath: file });
  if (!process.argv.includes('--check')) writeFileSync(file, text);
  else if (readFileSync(file, 'utf8') !== text) {
    process.stderr.write(`${file} is behind src/endpoints: npm run docs:openapi\n`);
    process.exitCode = 1;
  }
}
