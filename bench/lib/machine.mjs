// Describes the machine of a measurement.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';

/** Returns the facts about the machine that others need for a comparison. */
export function machineFacts() {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memory_gib: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    system: /^PRETTY_NAME="(.*)"/m.exec(readIfThere('/etc/os-release'))?.[1] ?? 'unknown',
    node: process.version,
    wrk: /wrk \S*?([\d.]+)/.exec(spawnSync('wrk', ['-v']).stdout?.toString() ?? '')?.[1] ?? 'unknown',
    date: new Date().toISOString().slice(0, 10),
  };
}

/** @param {string} file */
function readIfThere(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
