// Tables of what was measured.
import { figure, table } from '../lib/output.mjs';
import { WORKLOADS } from './workloads.mjs';

const mebibytes = (bytes) => figure(bytes / 2 ** 20);

/** The main table: everybody, one small request. */
export function mainTable(rows, base) {
  const head = ['', 'CPU µs a request', `× ${base?.name ?? 'the first'}`, 'requests/s', 'p50 ms', 'p99 ms', 'memory MiB'];
  const floor = base?.cpu_us;
  return table(
    head,
    rows.map((row) => [
      row.name,
      cpuOf(row),
      figure(row.cpu_us / floor),
      Math.round(row.requests_per_second).toLocaleString('en-US'),
      figure(row.p50_ms),
      figure(row.p99_ms),
      mebibytes(row.memory_bytes),
    ]),
  );
} // prettier-ignore

/** What a request costs; of two processes that share the work, each of them too. */
function cpuOf({ cpu_us, cpu_us_of }) {
  const { proxy, asked } = cpu_us_of;
  return asked === undefined ? figure(cpu_us) : `${figure(cpu_us)} (${figure(proxy)} + asked ${figure(asked)})`;
}

/** Everything as Markdown. */
export function report({ workloads, not_measured }) {
  const sections = WORKLOADS.filter(({ name }) => workloads[name] !== undefined).map(({ name, title }) => {
    const rows = workloads[name];
    const base = rows.find((row) => row.name === 'bare undici') ?? rows[0];
    return `### ${title}\n\n${mainTable(rows, base)}\n`;
  });
  const missing = Object.entries(not_measured).map(([name, mend]) => `Not measured: ${name}. ${mend}`);
  return [...sections, ...missing].join('\n');
}
