import type { Path } from './positions.js';

/** A fault in a file, and its position. Lines and columns count from 1. */
export interface Fault {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/**
 * A problem that an operator should know about and need not fix. The line counts from 1; null when
 * unknown.
 */
export interface ConfigWarning {
  readonly line: number | null;
  readonly message: string;
}

/** Reports a fault at a path. The message is shown after the path. */
export type Add = (path: Path, message: string) => void;

/**
 * Returns a list of faults and a function that adds to it.
 *
 * @param fault creates a fault at a path
 */
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

/** Formats a fault for people and editors: `FILE:LINE:COLUMN: message`. */
export function formatFault({ file, line, column, message }: Fault): string {
  return `${file}:${line}:${column}: ${message}`;
}

/** Thrown for a file that cannot be used; holds every fault, in the order of the file. */
export class ConfigError extends Error {
  readonly code = 'CONFIG_REFUSED';
  readonly faults: readonly Fault[];
  /** Other files, whose absence or content may be the reason for a fault. */
  readonly reasons: readonly string[];

  /** @param reasons paths of files that the file names */
  constructor(faults: readonly Fault[], reasons: readonly string[] = []) {
    const sorted = faults.toSorted((a, b) => a.line - b.line || a.column - b.column);
    super(sorted.map(formatFault).join('\n'));
    this.faults = sorted;
    this.reasons = reasons;
  }
}
