import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { Failure, Result } from './api.js';

/** Something that is fetched: not there yet, there, or why not. What was there stays while it is fetched again. */
export interface Loaded<T> {
  readonly value: T | undefined;
  readonly failure: Failure | undefined;
  readonly loading: boolean;
  readonly reload: () => void;
  /** Changes what is there without fetching it. */
  readonly update: (change: (value: T) => T) => void;
}

/** Fetches when the part appears, and again on `reload`. */
export function useLoaded<T>(fetchIt: () => Promise<Result<T>>): Loaded<T> {
  const [state, setState] = useState<{ value?: T; failure?: Failure; loading: boolean }>({ loading: true });
  const fetcher = useRef(fetchIt);
  fetcher.current = fetchIt;
  const alive = useRef(true);
  const reload = useCallback(() => {
    setState((before) => ({ ...before, loading: true }));
    void fetcher.current().then((result) => {
      if (!alive.current) return;
      setState((before) =>
        result.ok
          ? { value: result.value, loading: false }
          : { ...before, failure: result.failure, loading: false },
      );
    });
  }, []);
  useEffect(() => {
    alive.current = true;
    reload();
    return () => {
      alive.current = false;
    };
  }, [reload]);
  const update = useCallback((change: (value: T) => T) => {
    setState((before) => (before.value === undefined ? before : { ...before, value: change(before.value) }));
  }, []);
  return { value: state.value, failure: state.failure, loading: state.loading, reload, update };
}

/** The time of now, moving on once in a while so that "3 minutes ago" does not stand still. */
export function useNow(intervalMs = 30_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return now;
}
