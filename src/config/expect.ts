import { z } from 'zod';
import { problemsOf, suggestion, throwProblems } from './fault.js';
import type { Config } from './schema/config.js';
import { checkSource } from './check-source.js';
import { readSource } from './source.js';
import { resolve } from 'node:path';
import { id, text } from './schema/units.js';

const REASONS = [
  'malformed', 'several_credentials', 'method_not_allowed', 'method_unknown', 'target_too_long',
  'unauthenticated', 'cross_origin', 'service_worker', 'wrong_credential_kind', 'scope', 'service_limited',
  'service', 'role', 'other_customer', 'not_found', 'preflight_refused',
] as const; // prettier-ignore

const asked = z.union(
  [
    z.literal('anonymous'),
    z.strictObject({
      role: text.describe('The role of the user'),
      scope: text.optional().describe('Scopes of a token, separated by spaces; without it and services: a session'),
      services: z.array(id).optional().describe('Services that the token is limited to'),
      customer_id: id.default('C1').describe('The customer of the user'),
    }),
  ],
  'expected anonymous, or { role: ..., scope: ..., services: [...] }',
); // prettier-ignore

const row = z.strictObject({
  method: text.default('GET').describe('The method'),
  path: text.describe('The request target, including its query'),
  host: text.optional().describe('The host that the request names'),
  headers: z.record(text, z.string('expected text')).default({}),
  as: asked,
  expect: z
    .union(
      [z.literal('allow'), z.enum(REASONS), z.int().min(200).max(599)],
      `expected allow, a status like 403, or a reason: ${REASONS.join(', ')}`,
    )
    .describe('allow, the status of a refusal, or its reason'),
});

export const expectSchema = z.strictObject({
  requests: z.array(row).min(1, 'expected at least one request'),
});

export type Expectation = z.output<typeof row>;

/** @throws ConfigError with every fault, unknown roles and scopes included */
export function loadExpectations(file: string, { policy }: Config, env: NodeJS.ProcessEnv = process.env) {
  const source = readSource(resolve(file), expectSchema, env);
  const { requests } = checkSource(source, expectSchema);
  const problems = problemsOf((add) => {
    requests.forEach(({ as }, i) => {
      if (as === 'anonymous') return;
      const check = (key: string, name: string, names: readonly string[]) => {
        if (names.includes(name)) return;
        add(['requests', i, 'as', key], `no ${key} has this name${suggestion(name, names)}`);
      };
      check('role', as.role, Object.keys(policy.roles));
      const scopes = (as.scope ?? '').split(' ').filter((name) => name !== '');
      for (const name of scopes) check('scope', name, Object.keys(policy.scopes));
    });
  });
  throwProblems(problems, source);
  return {
    requests,
    fault: (index: number, message: string) => source.fault(['requests', index], message),
  };
}
