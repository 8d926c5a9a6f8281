/** What the schema of a key says of it besides its type, default and meaning: `.meta({ restart: true })`. */
export interface Facts {
  /**
   * A running process keeps what it started with, here and in all keys below. `presence`: only adding and removing it
   * needs a restart.
   */
  readonly restart?: true | 'presence';
  /** Shown nowhere; in a directory file `${...}` is expanded here only. */
  readonly secret?: true;
  /** A path, relative to the folder of the file that it stands in; with the one word that is not a path. */
  readonly path?: true | { readonly except: string };
  /** What may be written there, shown where a value of another kind stands. */
  readonly example?: string;
}

declare module 'zod' {
  interface GlobalMeta extends Facts {}
}
