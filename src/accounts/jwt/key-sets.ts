import type { KeySet } from './key-set.js';
import type { IssuerSettings } from './subjects.js';

type KeySettings = Pick<IssuerSettings, 'name' | 'issuer' | 'discovery' | 'tls' | 'jwks'>;

/** Those with unchanged settings survive a reload: the issuer may be unavailable at that moment. */
export class KeySets {
  readonly #sets = new Map<string, KeySet>();

  /** A file is always read again: it may be what changed. */
  of(settings: KeySettings, open: () => KeySet): KeySet {
    if (settings.jwks !== null && 'file' in settings.jwks) return open();
    const key = keyOf(settings);
    const known = this.#sets.get(key) ?? open();
    this.#sets.set(key, known);
    return known;
  }

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
