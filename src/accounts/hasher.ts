/** What argon2id is given: KiB of memory and passes over it, on one lane. */
export interface HashParameters {
  readonly memoryCost: number;
  readonly timeCost: number;
}

/** Where password hashes are computed. */
export interface Hasher {
  /** Makes the PHC string of a password. */
  hash(password: string, parameters: HashParameters): Promise<string>;
  /** Whether a password is the one behind a PHC string; false for a string that is none. */
  verify(phc: string, password: string): Promise<boolean>;
}

/** Hashes in this process, for commands. Its native code is loaded at the first password: most commands never see one. */
export const localHasher: Hasher = {
  hash: async (password, parameters) => {
    const { hash } = await import('@node-rs/argon2');
    return hash(password, { ...parameters, parallelism: 1 });
  },
  verify: async (phc, password) => {
    const { verify } = await import('@node-rs/argon2');
    return verify(phc, password).catch(() => false);
  },
};
