/** Parameters of argon2id: memory in KiB and number of passes, on one lane. */
export interface HashParameters {
  readonly memoryCost: number;
  readonly timeCost: number;
}

/** Computes password hashes. */
export interface Hasher {
  /** Returns the PHC string of a password. */
  hash(password: string, parameters: HashParameters): Promise<string>;
  /** Whether a password matches a PHC string; false if the string is not valid. */
  verify(phc: string, password: string): Promise<boolean>;
}

/** Loads the native code. */
export const loadHasher = async () => import('@node-rs/argon2');

/**
 * Hashes in this process, for commands.
 *
 * The native code is loaded for the first password: most commands never see one.
 */
export const localHasher: Hasher = {
  hash: async (password, parameters) => {
    const { hash } = await loadHasher();
    return hash(password, { ...parameters, parallelism: 1 });
  },
  verify: async (phc, password) => {
    const { verify } = await loadHasher();
    return verify(phc, password).catch(() => false);
  },
};
