/** Of argon2id: memory in KiB and passes, on one lane. */
export interface HashParameters {
  readonly memoryCost: number;
  readonly timeCost: number;
}

export interface Hasher {
  hash(password: string, parameters: HashParameters): Promise<string>;
  /** False if the PHC string is not valid. */
  verify(phc: string, password: string): Promise<boolean>;
}

export const loadHasher = async () => import('@node-rs/argon2');

/** For commands: most never see a password, so the native code is loaded for the first one. */
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
