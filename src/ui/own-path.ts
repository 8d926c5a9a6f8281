const MAX_PATH = 2_048;

/**
 * Returns a return path if it can only lead to the same origin. The server applies the same rule.
 */
export function ownPath(path: string | null): string | undefined {
  if (path === null || path.length > MAX_PATH) return undefined;
  return /^\/(?!\/)[!-[\]-~]*$/.test(path) ? path : undefined;
}
