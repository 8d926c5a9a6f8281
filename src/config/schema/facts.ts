/** Facts about a key besides its type, default and meaning: `.meta({ restart: true })`. */
export interface Facts {
  /** A change takes effect only after a restart; `presence`: only adding or removing the key needs one. */
  readonly restart?: true | 'presence';
  /** Never shown, and expanded in a directory file; `path`: a URL whose path and query are never shown. */
  readonly secret?: true | 'path';
  /** A path, relative to the folder of its file; `except` is a word that is not a path. */
  readonly path?: true | { readonly except: string };
  /** Latchkey writes to this path; it reads the others. */
  readonly written?: true;
  /** An example of the value, shown when a value of another kind is found. */
  readonly example?: string;
}

declare module 'zod' {
  interface GlobalMeta extends Facts {}
}
