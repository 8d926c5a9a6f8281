/**
 * Maximum cost of a hash in a directory file, in KiB times passes.
 *
 * It also bounds the cost of checking an unknown login.
 */
export const MAX_PASSWORD_COST = 4_194_304;

/** The argon2id parameters in a PHC string. */
const PARAMETERS = /^\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,4}),p=\d{1,3}\$/;

/**
 * Returns the cost of checking a password hash: memory in KiB times passes.
 *
 * The time of a check is proportional to it. Returns 0 for null and for text that is not a hash.
 */
export function costOfHash(phc: string | null): number {
  const [, memory, passes] = PARAMETERS.exec(phc ?? '') ?? [];
  return memory === undefined || passes === undefined ? 0 : Number(memory) * Number(passes);
}
