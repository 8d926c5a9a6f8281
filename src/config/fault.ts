import type { Path } from './positions.js';

export interface Fault {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** A problem that an operator need not fix. The line counts from 1; null when unknown. */
export interface ConfigWarning {
  readonly line: number | null;
  readonly message: string;
}

/** Reports a fault at a path. The message is shown after the path. */
export type Add = (path: Path, message: string) => void;

/** Returns a list of faults and a function that adds to it. */
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

export function formatFault({ file, line, column, message }: Fault): string {
  return `${file}:${line}:${column}: ${message}`;
}

/** Thrown for a file that cannot be used; `reasons` are other files that may be why. */
export class ConfigError extends Error {
  readonly code = 'CONFIG_REFUSED';
  readonly faults: readonly Fault[];
  readonly reasons: readonly string[];

  constructor(faults: readonly Fault[], reasons: readonly string[] = []) {
    const sorted = faults.toSorted((a, b) => a.line - b.line || a.column - b.column);
    super(sorted.map(formatFault).join('\n'));
    this.faults = sorted;
    this.reasons = reasons;
  }
}
