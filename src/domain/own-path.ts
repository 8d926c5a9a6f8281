/** Maximum length of a return path, in characters. */
const MAX_PATH = 2_048;

/**
 * Returns a return path if it cannot lead to another origin; otherwise undefined.
 *
 * Browsers take `//` and `/\` for the start of a host, and drop control characters anywhere.
 */
export function ownPath(path: string | undefined): string | undefined {
  if (path === undefined || path.length > MAX_PATH) return undefined;
  return /^\/(?!\/)[!-[\]-~]*$/.test(path) ? path : undefined;
}
