import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { Failure, Result } from './api.js';
import { currentTime } from './clock.js';

/** A fetched value or its failure. The previous value stays available while it is fetched again. */
export interface Loaded<T> {
  readonly value: T | undefined;
  readonly failure: Failure | undefined;
  readonly loading: boolean;
  readonly reload: () => void;
  /** Changes the current value without fetching it. */
  readonly update: (change: (value: T) => T) => void;
}

/** Fetches when the component mounts, and again on `reload`. */
export function useLoaded<T>(fetchIt: () => Promise<Result<T>>): Loaded<T> {
  const [state, setState] = useState<{ value?: T; failure?: Failure; loading: boolean }>({ loading: true });
  const fetcher = useRef(fetchIt);
  fetcher.current = fetchIt;
  const alive = useRef(true);
  const latest = useRef(0);
  const reload = useCallback(() => {
    const asked = ++latest.current;
    setState((before) => ({ ...before, loading: true }));
    void fetcher.current().then((result) => {
      // A slow response must not replace a newer one.
      if (!alive.current || asked !== latest.current) return;
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

/** Returns the current time, updated regularly so that "3 minutes ago" does not become stale. */
export function useNow(intervalMs = 30_000): number {
  const [now, setNow] = useState(currentTime);
  useEffect(() => {
    const timer = setInterval(() => setNow(currentTime()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return now;
}
