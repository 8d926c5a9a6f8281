/**
 * What became of credentials, by what they are named by: `token:ID`, `digest:DIGEST` of a token, `session:DIGEST`, `user:ID`,
 * and `legacy_keys` for whether there are any.
 * `over`: it ended for good. `changed`: it may hold no more.
 */
export type Ended = ReadonlyMap<string, 'over' | 'changed'>;

/** Listens to what ended in the store, by whichever process. */
export interface EndingsListener {
  /**
   * Something ended or changed. Null: anything may have.
   *
   * @param lasting whether what began before it and is let in only later has to be looked at as well
   */
  readonly ended: (what: Ended | null, lasting: boolean) => void;
  /** Everything that ended before a question was told. */
  readonly asked: (question: string) => void;
}

/** Notifies the listeners of a process of what ends in its store, in order. */
export class Endings implements EndingsListener {
  readonly #listeners: Partial<EndingsListener>[] = [];

  listen(listener: Partial<EndingsListener>): void {
    this.#listeners.push(listener);
  }

  ended(what: Ended | null, lasting = true): void {
    if (what?.size === 0) return;
    for (const listener of this.#listeners) listener.ended?.(what, lasting);
  }

  asked(question: string): void {
    for (const listener of this.#listeners) listener.asked?.(question);
  }
}

/** What ended by the names of `revocations.ts`. */
export function endedByName(names: readonly string[]): Ended {
  const ended = new Map<string, 'over' | 'changed'>();
  for (const name of names) {
    const kind = name.slice(0, name.indexOf(':'));
    const rest = name.slice(kind.length + 1);
    const id = rest.slice(rest.indexOf(':') + 1);
    if (kind === 'token' || kind === 'session') ended.set(name, 'over');
    else if (kind === 'legacy') ended.set(`digest:${rest}`, 'over');
    else if (kind === 'user') note(ended, `user:${id}`);
    else note(ended, `token:${id}`);
  }
  return ended;
}

/** Beginnings of the keys of a networked store that {@link changedByKey} reads. */
export const CHANGED_KEYS = ['token:', 'session:', 'user:', 'legacy_keys'] as const;

/** What may have ended by the keys that changed in a networked store, without the prefix of that. */
export function changedByKey(names: readonly string[]): Ended {
  const changed = new Map<string, 'changed'>();
  for (const name of names) {
    if (name.startsWith('token:')) changed.set(`digest:${name.slice('token:'.length)}`, 'changed');
    else if (CHANGED_KEYS.some((start) => name.startsWith(start))) changed.set(name, 'changed');
  }
  return changed;
}

function note(ended: Map<string, 'over' | 'changed'>, key: string): void {
  if (!ended.has(key)) ended.set(key, 'changed');
}
