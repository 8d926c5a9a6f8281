/** Longest path to come back to, in characters. */
const MAX_PATH = 2_048;

/**
 * A path to come back to, when it can lead to nothing but the own origin; undefined otherwise.
 *
 * Browsers take `//` and `/\` for the beginning of a host, and drop control characters wherever they stand.
 */
export function ownPath(path: string | undefined): string | undefined {
  if (path === undefined || path.length > MAX_PATH) return undefined;
  return /^\/(?!\/)[!-[\]-~]*$/.test(path) ? path : undefined;
}
