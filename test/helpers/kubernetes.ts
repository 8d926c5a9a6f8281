import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { z } from 'zod';
import type { KubernetesObject } from './helm.js';
import { needNpmPackages } from './packages.mjs';

const packages = needNpmPackages(resolve(import.meta.dirname, '../helm'));
const require = createRequire(join(packages, 'package.json'));

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
  // Strings in the schemas, but unions of literals in the types.
  const file = join(packages, 'rendered-objects.ts');
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    target: ts.ScriptTarget.ES2022,
  };
  const host = ts.createCompilerHost(options);
  const read = host.getSourceFile.bind(host);
  const text = lines.flat().join('\n');
  host.getSourceFile = (name, ...rest) =>
    name === file ? ts.createSourceFile(name, text, ts.ScriptTarget.ES2022) : read(name, ...rest);
  const program = ts.createProgram([file], options, host);
  return ts.getPreEmitDiagnostics(program).map(({ messageText, start = 0 }) => {
    const { kind, metadata } = objects[Math.floor((text.slice(0, start).split('\n').length - 1) / 2)] ?? {};
    return `${kind} ${metadata?.name}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
  });
}
