import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import type { KubernetesObject } from './helm.js';
import { needNpmPackages } from './packages.mjs';

const packages = needNpmPackages(resolve(import.meta.dirname, '../helm'));
const require = createRequire(join(packages, 'package.json'));
const TSC = resolve('node_modules/typescript/bin/tsc');
const OPTIONS = ['--strict', '--noEmit', '--skipLibCheck', '--ignoreConfig', '--pretty', 'false', '--types', '', '--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2022']; // prettier-ignore

/** The part of the Gateway API that the chart uses; no package provides it. */
const httpRoute = z.strictObject({
  parentRefs: z.array(z.strictObject({ name: z.string(), namespace: z.string().optional(), sectionName: z.string().optional() })).min(1),
  hostnames: z.array(z.string()).optional(),
  rules: z.array(z.strictObject({ backendRefs: z.array(z.strictObject({ name: z.string(), port: z.number().int() })) })),
}); // prettier-ignore

function moduleOf({ apiVersion, kind }: KubernetesObject): string {
  const library = apiVersion.startsWith('monitoring.coreos.com/') ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models';
  return `${library}/${apiVersion}/${kind}`;
} // prettier-ignore

/** Returns what an API server would reject: invalid values and unknown fields. */
export function faultsOf(objects: readonly KubernetesObject[]): string[] {
  const known = objects.filter(({ kind }) => kind !== 'HTTPRoute');
  return [...objects.flatMap(valueFaults), ...unknownFields(known)];
}

function valueFaults(object: KubernetesObject): string[] {
  const name = `${object.kind} ${object.metadata.name}`;
  if (object.kind === 'HTTPRoute') {
    const { error } = httpRoute.safeParse(object['spec']);
    return error === undefined ? [] : [`${name}: ${error.message}`];
  }
  const models = require(moduleOf(object)) as Record<string, new (data: object) => { validate(): void }>;
  const Model = models[object.kind];
  if (Model === undefined) return [`${name}: no such kind`];
  try {
    new Model(object).validate();
    return [];
  } catch (error) {
    return [`${name}: ${(error as Error).message}`];
  }
}

/**
 * The schemas accept unknown fields, so the compiler checks these: an object literal may have no
 * others.
 */
function unknownFields(objects: readonly KubernetesObject[]): string[] {
  const lines = objects.map((object, i) => [
    `import type { I${object.kind} as Kind${i} } from '${moduleOf(object)}';`,
    `export const object${i}: Kind${i} = ${JSON.stringify(object)};`,
  ]);
  const file = join(packages, `rendered-objects-${process.pid}.ts`);
  writeFileSync(file, lines.flat().join('\n'));
  try {
    const { status, stdout } = spawnSync(process.execPath, [TSC, ...OPTIONS, file], { cwd: packages, encoding: 'utf8' });
    const faults = [...stdout.matchAll(/\.ts\((\d+),\d+\): error TS\d+: (.*(?:\n .*)*)/g)];
    if ((status === 0) !== (faults.length === 0)) throw new Error(`the compiler ended with ${status}: ${stdout}`);
    return faults.map(([, line, message]) => {
      const { kind, metadata } = objects[Math.floor((Number(line) - 1) / 2)] ?? {};
      return `${kind} ${metadata?.name}: ${message}`;
    });
  } finally {
    rmSync(file);
  }
} // prettier-ignore
