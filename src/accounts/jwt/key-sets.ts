import type { KeySet } from './key-set.js';
import type { IssuerSettings } from './subjects.js';

/** The settings of an issuer that determine its keys. */
type KeySettings = Pick<IssuerSettings, 'name' | 'issuer' | 'discovery' | 'tls' | 'jwks'>;

/**
 * The key sets of all issuers in this process.
 *
 * Those with unchanged settings survive a reload, because the issuer may be unavailable at that
 * moment.
 */
export class KeySets {
  readonly #sets = new Map<string, KeySet>();

  /**
   * Returns the cached keys of an issuer, or opens them.
   *
   * A file is always read again: it is never unavailable, and may be what changed.
   */
  of(settings: KeySettings, open: () => KeySet): KeySet {
    if (settings.jwks !== null && 'file' in settings.jwks) return open();
    const key = keyOf(settings);
    const known = this.#sets.get(key) ?? open();
    this.#sets.set(key, known);
    return known;
  }

  /** Drops the keys of issuers that are not listed, and makes the others fetch theirs again. */
  reload(issuers: readonly KeySettings[]): void {
    const kept = new Set(issuers.map(keyOf));
    for (const [key, set] of this.#sets) {
      if (kept.has(key)) set.expire();
      else this.#sets.delete(key);
    }
  }
}

function keyOf({ name, issuer, discovery, tls, jwks }: KeySettings): string {
  return JSON.stringify([name, issuer, discovery, tls, jwks]);
}
