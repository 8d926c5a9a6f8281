/**
 * Credentials that ended or changed, by key: `token:ID`, `digest:DIGEST` of a token,
 * `session:DIGEST`, `user:ID`, or `legacy_keys` for whether any exist. `ended`: it ended for good.
 * `changed`: it may no longer be valid.
 */
export type Ended = ReadonlyMap<string, 'ended' | 'changed'>;

/** Receives credentials that ended or changed in the store, whichever process changed them. */
export interface EndingsListener {
  /**
   * Called when something ended or changed; null means that anything may have.
   *
   * @param includesFutureStreams whether it also concerns streams that open later,
   * for requests authorized before it
   */
  readonly ended: (what: Ended | null, includesFutureStreams: boolean) => void;
  /** Called after everything that ended before a question was reported. */
  readonly asked: (question: string) => void;
}

/**
 * Notifies the listeners of a process, in order, of credentials that end or change in its store.
 */
export class Endings implements EndingsListener {
  readonly #listeners: Partial<EndingsListener>[] = [];

  listen(listener: Partial<EndingsListener>): void {
    this.#listeners.push(listener);
  }

  ended(what: Ended | null, includesFutureStreams = true): void {
    if (what?.size === 0) return;
    for (const listener of this.#listeners) listener.ended?.(what, includesFutureStreams);
  }

  asked(question: string): void {
    for (const listener of this.#listeners) listener.asked?.(question);
  }
}

/** Maps names as in `revocations.ts` to what ended or changed. */
export function endedByName(names: readonly string[]): Ended {
  const ended = new Map<string, 'ended' | 'changed'>();
  for (const name of names) {
    const kind = name.slice(0, name.indexOf(':'));
    const rest = name.slice(kind.length + 1);
    const id = rest.slice(rest.indexOf(':') + 1);
    if (kind === 'token' || kind === 'session') ended.set(name, 'ended');
    else if (kind === 'legacy') ended.set(`digest:${rest}`, 'ended');
    else if (kind === 'user') note(ended, `user:${id}`);
    else note(ended, `token:${id}`);
  }
  return ended;
}

/** Prefixes of the keys of a networked store that {@link changedByKey} understands. */
export const CHANGED_KEYS = ['token:', 'session:', 'user:', 'legacy_keys'] as const;

/** Maps changed keys of a networked store, without its prefix, to what may have ended. */
export function changedByKey(names: readonly string[]): Ended {
  const changed = new Map<string, 'changed'>();
  for (const name of names) {
    if (name.startsWith('token:')) changed.set(`digest:${name.slice('token:'.length)}`, 'changed');
    else if (CHANGED_KEYS.some((start) => name.startsWith(start))) changed.set(name, 'changed');
  }
  return changed;
}

function note(ended: Map<string, 'ended' | 'changed'>, key: string): void {
  if (!ended.has(key)) ended.set(key, 'changed');
}
