/** The costliest hash that a directory may declare, in KiB times passes; unknown logins cost no more than that. */
export const MAX_PASSWORD_COST = 4_194_304;

/** Argon2id's parameters in a PHC string. */
const PARAMETERS = /^\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,4}),p=\d{1,3}\$/;

/**
 * What a password hash costs to check: KiB of memory times passes over it, which is what its time grows with.
 * 0 for none, or for a text that is no hash.
 */
export function costOfHash(phc: string | null): number {
  const [, memory, passes] = PARAMETERS.exec(phc ?? '') ?? [];
  return memory === undefined || passes === undefined ? 0 : Number(memory) * Number(passes);
}
