// Tests the parts of measurements where a mistake would go unnoticed, because it would only give a
// wrong figure.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { forEachRow } from '../helpers/table.js';
import { until } from '../helpers/until.js';

/** The files under test are plain JavaScript, so the types of their exports are declared here. */
async function load<Exports>(file: string): Promise<Exports> {
  return (await import(new URL(`../../bench/${file}`, import.meta.url).href)) as Exports;
}

t.test('medians, quantiles and spread', async (t) => {
  interface Statistics {
    readonly median: (values: number[]) => number;
    readonly quantile: (values: number[], share: number) => number;
    readonly spread: (values: number[]) => number;
  }
  const { median, quantile, spread } = await load<Statistics>('lib/statistics.mjs');
  t.equal(median([10, 9, 1]), 9);
  t.equal(median([100, 9, 1, 10]), 9.5);
  t.equal(median([3, NaN, 1, 2]), 2, 'omits a round without a value');
  t.ok(Number.isNaN(median([])));
  const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);
  forEachRow(
    [
      [0.5, 50],
      [0.99, 99],
      [0.999, 100],
      [0, 1],
      [1, 100],
    ] as const,
    ([share, value]) => t.equal(quantile(hundred, share), value),
  );
  t.equal(spread([9, 10, 12]), 0.3);
});

t.test('reads what Linux reports about processes', async (t) => {
  interface Proc {
    readonly parseStat: (text: string) => { parent: number; cpuSeconds: number };
    readonly parseKib: (text: string, name: string) => number;
    readonly parseBusy: (text: string, core: number) => number;
    readonly familyOf: (pid: number) => number[];
    readonly cpuSeconds: (pids: number[]) => number;
    readonly memoryBytes: (pids: number[]) => number;
  }
  const proc = await load<Proc>('lib/proc.mjs');
  const rest = '0 -1 4194560 100 0 0 0 250 50 7 8 20 0 11 0 1000 99999 500';
  t.same(proc.parseStat(`42 (a (b) c) S 7 42 42 ${rest}`), { parent: 7, cpuSeconds: 3 });
  t.equal(proc.parseKib('VmPeak:\t  900 kB\nVmRSS:\t  512 kB\n', 'VmRSS'), 524_288);
  t.equal(proc.parseBusy('cpu  9 9\ncpu0 100 10 50 900 5 1 2 3 0 0\ncpu1 1 1 1 1', 0), 1.66);

  const busy = 'setInterval(() => { const end = Date.now() + 50; while (Date.now() < end); }, 0)';
  const child = spawn('sh', ['-c', '"$@" & wait', '-', process.execPath, '-e', busy]);
  t.teardown(() => process.kill(proc.familyOf(child.pid ?? 0)[1] ?? 0, 'SIGKILL'));
  await until(() => proc.familyOf(child.pid ?? 0).length === 2, 'a child of a child');
  const family = proc.familyOf(child.pid ?? 0);
  await until(() => proc.cpuSeconds(family) > 0.3, 'its time is counted');
  t.ok(proc.cpuSeconds([child.pid ?? 0]) < 0.2, 'not that of its parent');
  t.ok(proc.memoryBytes(family) > 1e7);
  t.ok(proc.memoryBytes([process.pid]) > 1e7);
  t.equal(proc.cpuSeconds([2 ** 22 + 1]), 0, 'a process that has exited');
});

t.test('cores', async (t) => {
  interface Processes {
    readonly parseCores: (list: string) => number[];
    readonly planCores: (cores: number[]) => { load: number[]; measured: number[] };
  }
  const { parseCores, planCores } = await load<Processes>('lib/processes.mjs');
  t.same(parseCores('0-2,5,7-8'), [0, 1, 2, 5, 7, 8]);
  t.same(planCores([3, 4, 9]), { load: [3, 4], measured: [9] });
  t.throws(() => planCores([0]), { message: /two cores/ });
});

t.test('parses the output of wrk', async (t) => {
  interface Wrk {
    readonly parseResult: (output: string) => object;
  }
  const { parseResult } = await load<Wrk>('lib/wrk.mjs');
  const said = (failed: number) =>
    `Running 2s test\nRESULT {"requests":10,"us":2500000,"p50":1500,"p99":9000,"failed":${failed},"refused":3,"bytes":7}\n`;
  t.same(parseResult(said(0)), { requests: 10, seconds: 2.5, p50: 1.5, p99: 9, refused: 3, bytes: 7 });
  t.throws(() => parseResult(said(1)), { message: /1 requests of 10 failed/ });
  t.throws(() => parseResult('unable to connect'), { message: /unable to connect/ });
});

t.test('tables and sections of a page', async (t) => {
  interface Output {
    readonly figure: (value: number | null) => string;
    readonly table: (head: string[], rows: unknown[][], texts?: number[]) => string;
    readonly replaceSection: (page: string, name: string, content: string) => string;
  }
  const { figure, table, replaceSection } = await load<Output>('lib/output.mjs');
  forEachRow(
    [
      [12_345.6, '12,346'],
      [99.96, '100.0'],
      [12.345, '12.3'],
      [0.5, '0.50'],
      [NaN, '–'],
      [null, '–'],
    ] as const,
    ([value, text]) => t.equal(figure(value), text),
  );
  t.equal(table(['', 'a|b'], [['x', 1]]), '|  | a\\|b |\n| --- | ---: |\n| x | 1 |');
  const page =
    'A\n<!-- one: begin -->\nold\n<!-- one: end -->\nB\n<!-- two: begin -->\nkept\n<!-- two: end -->\n';
  const changed = replaceSection(page, 'one', 'new');
  t.match(changed, '<!-- one: begin -->\n\nnew\n\n<!-- one: end -->\nB\n<!-- two: begin -->\nkept');
  t.equal(replaceSection(changed, 'one', 'new'), changed);
  t.throws(() => replaceSection(page, 'three', 'x'), { message: /three: begin/ });
});

t.test('draws the chart', async (t) => {
  interface Chart {
    readonly chartsAsSvg: (charts: object[]) => string;
  }
  const { chartsAsSvg } = await load<Chart>('lib/chart.mjs');
  const rows = [
    { name: 'A & <B>', parts: [10, 30], label: '40' },
    { name: 'C', parts: [20], label: '20', own: true },
  ];
  const svg = chartsAsSvg([{ title: 'T', note: 'N', stacked: true, rows }]);
  t.match(svg, 'A &amp; &lt;B&gt;');
  const width = (part: string) => Number(new RegExp(`class="${part}"[^>]* width="([\\d.]+)"`).exec(svg)?.[1]);
  t.ok(Math.abs(width('second') - 3 * width('first')) < 1, 'lengths are proportional');
  t.ok(Math.abs(width('first own') - 2 * width('first')) < 1);
  const together = chartsAsSvg([{ title: 'T', note: 'N', stacked: false, rows }]);
  t.ok(together.indexOf('"second"') < together.indexOf('"first"'), 'the longer one is in the background');
});

t.test('attributes time and memory to stages', async (t) => {
  interface Stages {
    STAGES: Record<string, string>;
    readonly ownerOf: (url: string) => string | undefined;
    readonly attribute: (profile: object) => { rows: Map<string, { own: number; called: number }> };
    readonly attributeAllocations: (head: object) => Map<string, number>;
  }
  const { STAGES, ownerOf, attribute, attributeAllocations } = await load<Stages>('profile/stages.mjs');
  forEachRow(
    [
      ['file:///x/dist/http/read-head.js', 'head'],
      ['file:///x/dist/http/write-reply.js', 'answer'],
      ['file:///x/dist/domain/secret.js', 'authenticate'],
      ['file:///x/dist/domain/path.js', undefined],
      ['file:///x/dist/gate/gate.js', 'authorize'],
      ['file:///x/dist/gate/identity.js', 'identity'],
      ['file:///x/node_modules/lmdb/read.js', 'store'],
      ['file:///x/dist/upstream/connection.js', 'upstream'],
      ['file:///x/dist/http1/response-parser.js', undefined],
      ['file:///x/dist/listeners/http1-connection.js', 'receive'],
      ['file:///x/dist/upstream/forward.js', 'forward'],
      ['file:///x/dist/pipeline/access-log.js', 'log'],
      ['file:///x/dist/pipeline/handle.js', 'pipeline'],
      ['node:net', undefined],
    ] as const,
    ([url, stage]) => t.equal(ownerOf(url), stage, url),
  );
  const frame = (id: number, functionName: string, url: string, children: number[] = []) => ({
    id,
    children,
    callFrame: { functionName, url, lineNumber: 0 },
  });
  const nodes = [
    frame(1, '(root)', '', [2, 6, 7]),
    frame(2, 'onStreamRead', 'node:internal/stream_base_commons', [3]),
    frame(3, 'onRequest', 'file:///x/dist/pipeline/handle.js', [4]),
    frame(4, 'forward', 'file:///x/dist/upstream/forward.js', [5]),
    frame(5, 'write', 'node:net'),
    frame(6, '(idle)', ''),
    frame(7, 'processTimers', 'node:internal/timers'),
  ];
  const profile = { nodes, samples: [2, 3, 4, 5, 5, 6, 7], timeDeltas: [1000, 2000, 3000, 4000, 5000, 6000, 7000] };
  t.same(Object.fromEntries(attribute(profile).rows), {
    receive: { own: 1, called: 0 },
    pipeline: { own: 2, called: 0 },
    forward: { own: 3, called: 9 },
    idle: { own: 6, called: 0 },
    node: { own: 7, called: 0 },
  });
  const node = (url: string, selfSize: number, children: object[] = []) => ({ callFrame: { url }, selfSize, children });
  const head = node('', 0, [node('node:internal/stream_base_commons', 1, [node('file:///x/dist/http/head.js', 2, [node('', 4)])])]);
  const allocated = attributeAllocations(head);
  t.equal(allocated.get('receive'), 1);
  t.equal(allocated.get('head'), 6);
  for (const stage of allocated.keys()) t.ok(stage in STAGES, stage);
}); // prettier-ignore

t.test('reports only the figures that got worse', async (t) => {
  interface Judge {
    readonly judge: (
      measured: object,
      limits: object | undefined,
      tolerance: object,
      isQuiet?: boolean,
    ) => string[];
  }
  const { judge } = await load<Judge>('check/judge.mjs');
  const limits = {
    forwarded_cpu_ratio: 2,
    refused_cpu_ratio: 1,
    forwarded_kib: 30,
    refused_kib: 20,
    kept_kib: 1,
  };
  const tolerance = {
    forwarded_cpu_ratio: 0.1,
    refused_cpu_ratio: 0.1,
    forwarded_kib: 0.05,
    refused_kib: 0.05,
    kept_kib: 1,
  };
  t.same(judge(limits, limits, tolerance), []);
  t.same(judge({ ...limits, forwarded_cpu_ratio: 2.19, forwarded_kib: 31.4 }, limits, tolerance), []);
  const [fault, ...more] = judge({ ...limits, refused_kib: 22 }, limits, tolerance);
  t.match(fault, /^a refused request became dearer: 22\.0 KiB allocated, 10 % more than 20\.0/);
  t.same(more, []);
  t.same(judge({ ...limits, kept_kib: 1.9 }, limits, tolerance), []);
  t.match(judge({ ...limits, kept_kib: 6 }, limits, tolerance), [
    /^what a steady request leaves behind became dearer/,
  ]);
  t.same(judge({ ...limits, refused_cpu_ratio: 9 }, limits, tolerance, false), [], 'a busy machine');
  t.match(judge(limits, undefined, tolerance), [/no limits for Node .*--set/]);
  const kept = JSON.parse(readFileSync('bench/check/limits.json', 'utf8')) as {
    limits: Record<string, object>;
  };
  for (const each of Object.values(kept.limits)) t.same(Object.keys(each), Object.keys(limits));
});
