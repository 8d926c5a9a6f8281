import { z } from 'zod';
import { directoryRules, loadDirectory } from '../config/directory.js';
import { type Expectation, expectSchema, loadExpectations } from '../config/expect.js';
import { ConfigError, formatFault } from '../config/fault.js';
import { openRoutes } from '../config/derived.js';
import { loadConfigToServe, type LoadedConfig } from '../config/load.js';
import { configSchema } from '../config/schema/config.js';
import { directorySchema } from '../config/schema/directory-file.js';
import type { Facts } from '../config/schema/units.js';
import { shadowSchema } from '../config/schema/policy.js';
import { warningsOf } from '../config/warnings.js';
import { counted, maskTokens, printable } from '../util/text.js';
import type { Subject } from '../domain/credential.js';
import type { Explanation } from '../gate/explain.js';
import { syntheticSubject, syntheticUser } from '../gate/what-if.js';
import { Simulator } from '../pipeline/simulate.js';
import { describePosition } from '../policy/decide.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import type { SchemaKind } from './terminal/options.js';
import { asJson, print } from './terminal/output.js';

interface CheckOptions {
  readonly config: string;
  readonly expect?: string;
  readonly online?: boolean;
}

export async function check(options: CheckOptions): Promise<number> {
  try {
    const loaded = loadConfigToServe(options.config);
    const { file, config } = loaded;
    const directory =
      config.directory.file === null
        ? null
        : loadDirectory(config.directory.file, process.env, directoryRules(config), warn);
    const count = options.expect === undefined ? null : await checkExpectations(loaded, options.expect);
    for (const warning of warningsOf(loaded, directory)) warn(warning);
    if (options.online === true && !(await isOnline(loaded))) return 1;
    const open = openRoutes(config);
    if (open.length > 0) print(`${file}: open to everybody, without a credential: ${open.join(', ')}\n`);
    print(`${file}: ok${count === null ? '' : `, ${counted(count, 'request')} decided as expected`}\n`);
    return 0;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const fault of error.faults) process.stderr.write(`${printable(formatFault(fault))}\n`);
    return 1;
  }
}

function warn(message: string): void {
  process.stderr.write(`${printable(message)}\n`);
}

async function probeStore({ store: { maintenance } }: OpenedStore): Promise<void> {
  await maintenance.probe();
  // A Redis user may only be allowed to read.
  await maintenance.probeWrite();
}

async function isOnline(loaded: LoadedConfig): Promise<boolean> {
  const { onlineChecks, reasonOf } = await import('../server/online-checks.js');
  const { hasStore, withStore } = await import('./with-store.js');
  // Probing a store that does not exist would create it.
  const store = hasStore(loaded) ? [{ name: 'store', run: async () => withStore(loaded, probeStore) }] : [];
  const results = await Promise.all(
    [...store, ...onlineChecks(loaded.config)].map(async ({ name, run }) =>
      run().then(
        () => ({ name, fault: null }),
        (error: unknown) => ({ name, fault: reasonOf(error) }),
      ),
    ),
  );
  for (const { name, fault } of results) {
    if (fault === null) print(`${printable(name)}: ok\n`);
    else warn(`${loaded.file}: ${name}: ${fault}`);
  }
  return results.every(({ fault }) => fault === null);
}

/** Checks a table of expected decisions. @throws ConfigError with all mismatches */
export async function checkExpectations(loaded: LoadedConfig, file: string): Promise<number> {
  const { requests, fault } = loadExpectations(file, loaded.config);
  const simulator = new Simulator(loaded, null);
  const faults = [];
  for (const [i, row] of requests.entries()) {
    const explanation = await simulator.simulate(
      {
        method: row.method,
        target: row.path,
        fields: [
          ...(row.host === undefined ? [] : ['Host', row.host]),
          ...Object.entries(row.headers).flat(),
        ],
        as: row.as === 'anonymous' ? 'anonymous' : { subject: subjectOf(row.as) },
      },
      Date.now(),
    );
    if (!isAsExpected(explanation, row.expect)) faults.push(fault(i, describe(row, explanation)));
  }
  if (faults.length > 0) throw new ConfigError(faults);
  return requests.length;
}

function isAsExpected({ verdict }: Explanation, expected: Expectation['expect']): boolean {
  if (expected === 'allow') return verdict.allowed;
  return typeof expected === 'number' ? verdict.status === expected : verdict.outcome === expected;
}

function subjectOf(as: Exclude<Expectation['as'], 'anonymous'>): Subject {
  const user = { ...syntheticUser(as.role, as.customer_id, 'someone'), login: 'someone@example.com' };
  return syntheticSubject(user, as);
}

function describe(row: Expectation, explanation: Explanation): string {
  const { verdict } = explanation;
  const got = verdict.allowed ? 'allow' : `${verdict.status} ${verdict.outcome} (${verdict.detail})`;
  const rule = explanation.checks.find(({ allowed }) => !allowed) ?? explanation.checks.at(-1);
  const position = rule?.place == null ? '' : ` by ${describePosition(rule.place)}`;
  return printable(
    maskTokens(
      `${row.method} ${row.path} as ${who(row.as)}: expected ${row.expect}, got ${got}${position}${routeOf(explanation)}`,
    ),
  );
}

function who(as: Expectation['as']): string {
  if (as === 'anonymous') return as;
  if (as.scope === undefined && as.services === undefined) return `${as.role} by session`;
  const services = as.services === undefined ? '' : ` limited to ${as.services.join(', ')}`;
  return `${as.role} with ${as.scope ?? 'global'}${services}`;
}

function routeOf({ route }: Explanation): string {
  if (route === null) return '';
  return `; route ${route.path === '*' ? 'default_route' : route.path}`;
}

const SCHEMAS: Readonly<Record<SchemaKind, z.ZodType>> = {
  config: configSchema,
  directory: directorySchema,
  expect: expectSchema,
  shadow: shadowSchema,
};

/** Facts that only Latchkey uses; editors do not know them. */
const FACTS = ['restart', 'secret', 'path', 'written', 'example'] as const satisfies (keyof Facts)[];

export function printSchema(kind: SchemaKind): void {
  print(asJson(jsonSchemaOf(kind)));
}

export function jsonSchemaOf(kind: SchemaKind): z.core.JSONSchema.BaseSchema {
  return z.toJSONSchema(SCHEMAS[kind], {
    io: 'input',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      for (const name of FACTS) delete jsonSchema[name];
    },
  });
}
