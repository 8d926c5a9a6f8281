import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { needPackages, runs } from './debian.js';

const RENDERER = resolve(import.meta.dirname, '../helm/render');
const GO_SOURCES = '/usr/share/gocode';

/** A Kubernetes object of any kind. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Record<string, string>;
    readonly annotations?: Record<string, string>;
  };
  readonly [field: string]: any; // oxlint-disable-line typescript/no-explicit-any -- tests look into objects of every kind
}

/** A chart to render, with its values. */
export interface Case {
  readonly chart: string;
  readonly release?: string;
  readonly values?: object;
}

/** The result of rendering a chart. */
export interface Rendered {
  /** Text by template path. */
  readonly files: Readonly<Record<string, string>>;
  /** The merged values of each chart, by its path in the tree. */
  readonly values: Readonly<Record<string, object>>;
  readonly objects: readonly KubernetesObject[];
  /** Why rendering failed; empty if it succeeded. */
  readonly error: string;
}

/** Renders charts with Go's own templates, as Helm does. */
export function render(cases: readonly Case[]): Rendered[] {
  const input = cases.map(({ chart, release = 'demo', values = {} }) => ({
    chart: resolve(chart),
    release,
    namespace: 'apps',
    values,
  }));
  const { status, stdout, stderr } = spawnSync(renderer(), [], {
    input: JSON.stringify(input),
    maxBuffer: 256 * 1024 * 1024,
  });
  if (status !== 0) throw new Error(stderr.toString());
  const results = JSON.parse(stdout.toString()) as Omit<Rendered, 'objects'>[];
  return results.map((result) => {
    let objects: KubernetesObject[] | undefined;
    // Parsed on demand: many renderings are only compared as text.
    return {
      ...result,
      get objects() {
        return (objects ??= result.error === '' ? objectsOf(result.files) : []);
      },
    };
  });
}

/** Returns the path of the renderer, which is built once per state of its source. */
function renderer(): string {
  needPackages(
    () => runs('go', 'version') && existsSync(`${GO_SOURCES}/src/github.com/Masterminds/sprig`),
    'golang-go',
    'golang-github-masterminds-sprig-dev',
    'golang-gopkg-yaml.v2-dev',
  );
  const digest = createHash('sha256');
  for (const name of readdirSync(RENDERER).toSorted()) digest.update(readFileSync(join(RENDERER, name)));
  const built = join(tmpdir(), `latchkey-helm-render-${digest.digest('hex').slice(0, 16)}`);
  if (existsSync(built)) return built;
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-helm-'));
  const fresh = join(folder, 'render');
  const { status, stderr } = spawnSync('go', ['build', '-o', fresh, '.'], {
    cwd: RENDERER,
    env: { ...process.env, GO111MODULE: 'off', GOPATH: GO_SOURCES },
  });
  if (status !== 0) throw new Error(`the renderer cannot be built: ${stderr.toString()}`);
  renameSync(fresh, built);
  rmdirSync(folder);
  return built;
}

function objectsOf(files: Readonly<Record<string, string>>): KubernetesObject[] {
  return Object.entries(files)
    .filter(([path]) => path.endsWith('.yaml'))
    .flatMap(([path, text]) => parseObjects(text, path));
}

/** Parses objects as Kubernetes does: YAML 1.1, unique keys. */
export function parseObjects(text: string, where: string): KubernetesObject[] {
  const documents = parseAllDocuments(text, { version: '1.1', uniqueKeys: true });
  if (!Array.isArray(documents)) return [];
  return documents.flatMap((document) => {
    const [fault] = [...document.errors, ...document.warnings];
    if (fault !== undefined) throw new Error(`${where}: ${fault.message}`);
    const value = document.toJS() as KubernetesObject | null;
    return value === null ? [] : [value];
  });
}
