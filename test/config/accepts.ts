import { writeFileSync } from 'node:fs';
import { ConfigError } from '../../src/config/fault.js';
import { loadConfigToServe } from '../../src/config/load.js';

/** Writes a configuration to a file. Returns whether `serve` accepts it. */
export function accepts(file: string, text: string): boolean {
  writeFileSync(file, text);
  try {
    loadConfigToServe(file);
    return true;
  } catch (error) {
    if (error instanceof ConfigError) return false;
    throw error;
  }
}
