/** Maximum cost of a hash in a directory file; it also bounds the time of a check for an unknown login. */
export const MAX_PASSWORD_COST = 4_194_304;

const PARAMETERS = /^\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,4}),p=\d{1,3}\$/;

/**
 * Returns the cost of checking a password hash, in KiB of memory times passes; 0 for null and for other text.
 */
export function costOfHash(phc: string | null): number {
  const [, memory, passes] = PARAMETERS.exec(phc ?? '') ?? [];
  return memory === undefined || passes === undefined ? 0 : Number(memory) * Number(passes);
}
