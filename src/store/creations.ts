import type { Session } from '../domain/session.js';
import type { EpochMs } from '../util/time.js';
import { isExpired, type Token } from '../domain/token.js';
import type { VerifiedOwner } from '../domain/user.js';
import { RETENTION_MS, type Revocations } from './revocations.js';

const MAX_CREATED = 10_000;

export type Creation =
  | { readonly kind: 'token'; readonly record: Token; readonly owner: VerifiedOwner }
  | { readonly kind: 'session'; readonly record: Session; readonly owner: VerifiedOwner };

/**
 * What this process created in the last hour, to be written again to a store that lost it.
 * A token that another process changed is left out: as created, it would lose its restrictions.
 */
export class Creations {
  readonly #revocations: Revocations;
  /** Creations by digest, oldest first, each with its `performance.now()`. */
  readonly #tokens = new Map<string, readonly [at: number, Creation]>();
  readonly #sessions = new Map<string, readonly [at: number, Creation]>();

  constructor(revocations: Revocations) {
    this.#revocations = revocations;
  }

  note(creation: Creation): void {
    const all = this.#of(creation);
    all.set(creation.record.digest, [performance.now(), creation]);
    const [oldest] = all.keys();
    if (all.size > MAX_CREATED && oldest !== undefined) all.delete(oldest);
  }

  replace(record: Token): void {
    const known = this.#tokens.get(record.digest)?.[1];
    if (known?.kind === 'token') this.note({ ...known, record });
  }

  current(now: EpochMs): Creation[] {
    const oldest = performance.now() - RETENTION_MS;
    for (const all of [this.#tokens, this.#sessions])
      for (const [digest, [at, creation]] of all)
        if (at < oldest || this.#hasEnded(creation, now)) all.delete(digest);
    return [...this.#tokens.values(), ...this.#sessions.values()].map(([, creation]) =>
      this.#corrected(creation),
    );
  }

  forget(lost: readonly Creation[]): void {
    for (const creation of lost) this.#of(creation).delete(creation.record.digest);
  }

  #corrected(creation: Creation): Creation {
    return creation.kind === 'token'
      ? { ...creation, record: this.#revocations.corrected(creation.record) }
      : creation;
  }

  #of({ kind }: Creation) {
    return kind === 'token' ? this.#tokens : this.#sessions;
  }

  #hasEnded({ kind, record }: Creation, now: EpochMs): boolean {
    return kind === 'token'
      ? isExpired(record, now) || this.#revocations.hasToken(record) || this.#revocations.isSuperseded(record)
      : record.endsAt <= now || this.#revocations.hasSession(record.digest);
  }
}
