const MAX_PATH = 2_048;

/** A path to come back to, when it can lead to nothing but the own origin; the server has the same rule. */
export function ownPath(path: string | null): string | undefined {
  if (path === null || path.length > MAX_PATH) return undefined;
  return /^\/(?!\/)[!-[\]-~]*$/.test(path) ? path : undefined;
}
