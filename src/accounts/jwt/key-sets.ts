import type { KeySet } from './key-set.js';
import type { IssuerSettings } from './subjects.js';

/** The settings of an issuer that decide which keys it has. */
type KeySettings = Pick<IssuerSettings, 'name' | 'issuer' | 'jwks'>;

/** The key sets of issuers in one process. Those whose settings stay outlive a reload, at which the issuer may be away. */
export class KeySets {
  readonly #sets = new Map<string, KeySet>();

  /** The keys of an issuer, as they were opened before. A file is read anew: it is never away, and may be the change. */
  of(settings: KeySettings, open: () => KeySet): KeySet {
    if (settings.jwks !== null && 'file' in settings.jwks) return open();
    const key = keyOf(settings);
    const known = this.#sets.get(key) ?? open();
    this.#sets.set(key, known);
    return known;
  }

  /** Forgets the keys of issuers that are not among these, and has those of the others fetched again. */
  reload(issuers: readonly KeySettings[]): void {
    const kept = new Set(issuers.map(keyOf));
    for (const [key, set] of this.#sets) {
      if (kept.has(key)) set.expire();
      else this.#sets.delete(key);
    }
  }
}

function keyOf({ name, issuer, jwks }: KeySettings): string {
  return JSON.stringify([name, issuer, jwks]);
}
