import type { Path } from './positions.js';

/** One thing that is wrong with a file, and where. Lines and columns count from 1. */
export interface Fault {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** What an operator should know and need not change. The line counts from 1; null when it is not known. */
export interface ConfigWarning {
  readonly line: number | null;
  readonly message: string;
}

/** Notes a fault of the place that the path names. The message is shown behind the path. */
export type Add = (path: Path, message: string) => void;

/** Collects faults. @param fault makes one of a place in the file */
export function collectFaults(fault: (path: Path, message: string) => Fault): {
  readonly faults: Fault[];
  readonly add: Add;
} {
  const faults: Fault[] = [];
  const add: Add = (path, message) => {
    faults.push(fault(path, path.length === 0 ? message : `${path.map(String).join('.')}: ${message}`));
  };
  return { faults, add };
}

/** A fault as a person and an editor read it: `FILE:LINE:COLUMN: message`. */
export function formatFault({ file, line, column, message }: Fault): string {
  return `${file}:${line}:${column}: ${message}`;
}

/** A file that can't be used; it holds every fault that was found, in the order of the file. */
export class ConfigError extends Error {
  readonly code = 'CONFIG_REFUSED';
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[]) {
    const sorted = faults.toSorted((a, b) => a.line - b.line || a.column - b.column);
    super(sorted.map(formatFault).join('\n'));
    this.faults = sorted;
  }
}
