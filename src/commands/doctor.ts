import type { DoctorOptions } from '../doctor/check.js';
import { CHECKS, examine, type Report, type Result } from '../doctor/examine.js';
import { counted, printable } from '../util/text.js';
import { readVersion } from '../files/files.js';
import { CommandFailed, renderList, report as print } from './terminal/output.js';
import { readSecret } from './terminal/password.js';

const KEY_VARIABLE = 'LATCHKEY_DOCTOR_KEY';

type Addresses = Pick<DoctorOptions, 'url' | 'upstream' | 'admin' | 'decision' | 'plain' | 'keyHeader'>;

interface DoctorCommandOptions extends Addresses {
  readonly check?: readonly string[];
  readonly path?: readonly string[];
  readonly public?: readonly string[];
  readonly identityHeader?: readonly string[];
  readonly keyFile?: string;
  readonly ca?: string;
  readonly json?: true;
}

const MAX_REQUESTS = 10_000;

export async function doctor(options: DoctorCommandOptions): Promise<number> {
  const publicPaths = [...new Set(options.public)];
  refuseUnknown(options.check ?? []);
  const report = await examine({
    ...options,
    paths: [...new Set(options.path)].filter((path) => !publicPaths.includes(path)),
    publicPaths,
    identityHeaders: options.identityHeader ?? [],
    checks: options.check,
    version: readVersion(),
    maxRequests: MAX_REQUESTS,
    key:
      options.keyFile === undefined
        ? process.env[KEY_VARIABLE] || undefined
        : readSecret(options.keyFile, 'a token'),
    ca: options.ca === undefined ? undefined : readSecret(options.ca, 'a certificate'),
  });
  print(options, report, options.json ? '' : await render(report));
  return report.result === 'serious' ? 1 : 0;
}

function refuseUnknown(names: readonly string[]): void {
  const known = CHECKS.map(({ name }) => name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new CommandFailed(`there is no check ${unknown}; choose one of ${known.join(', ')}`);
} // prettier-ignore

function shown(result: Result): string {
  return result === 'serious' ? 'SERIOUS' : result;
}

async function render({ url, checks, findings, notes, requests, duration_ms: ms }: Report): Promise<string> {
  const rows = checks.map(({ result, ...each }) => ({ ...each, result: shown(result) }));
  const details = findings.map(({ severity, check, summary, evidence, remedy }) =>
    [`${shown(severity)}: ${check}: ${summary}`, ...evidence.map((line) => `  ${line}`), `  Remedy: ${remedy}`].join('\n'),
  );
  const count = (severity: Result) => findings.filter((finding) => finding.severity === severity).length;
  const open = checks.filter(({ result }) => result === 'unknown').length;
  return [
    await renderList(rows, ['result', 'check', 'summary']),
    ...details.map((text) => `${text}\n`),
    ...notes.map((note) => `Note: ${printable(note)}`),
    `${url}: ${count('serious')} serious, ${counted(count('warning'), 'warning')}, ${open} unknown; ${counted(requests, 'request')} in ${Math.round(ms / 1_000)} s`,
  ].join('\n');
} // prettier-ignore
