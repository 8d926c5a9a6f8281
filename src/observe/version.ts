import { readFileSync } from 'node:fs';

/** Returns the version in `package.json`. */
export function readVersion(): string {
  const file = new URL('../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
