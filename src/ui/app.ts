import { createContext } from 'preact';
import { useCallback, useContext, useEffect, useRef, useState } from 'preact/hooks';
import { type Caller, type Failure, getCaller, lastAnswerAt, type Result } from './api.js';

interface App {
  readonly caller: Caller;
  readonly refresh: () => void;
  readonly announce: (message: string) => void;
}

export const AppContext = createContext<App | null>(null);

/** For components that are only rendered while a user is logged in. */
export function useApp(): App {
  const app = useContext(AppContext);
  if (app === null) throw new Error('this part of the page is outside the app');
  return app;
}

/** The previous value stays while it is fetched again; `update` changes it without fetching. */
export function useLoaded<T>(fetchIt: () => Promise<Result<T>>) {
  const [state, setState] = useState<{ value?: T; failure?: Failure; loading: boolean }>({ loading: true });
  const fetcher = useRef(fetchIt);
  fetcher.current = fetchIt;
  const latest = useRef(0);
  const reload = useCallback(() => {
    const asked = ++latest.current;
    setState((before) => ({ ...before, loading: true }));
    void fetcher.current().then((result) => {
      // A slow response must not replace a newer one.
      if (asked !== latest.current) return;
      setState((before) =>
        result.ok
          ? { value: result.value, loading: false }
          : { ...before, failure: result.failure, loading: false },
      );
    });
  }, []);
  useEffect(reload, [reload]);
  const update = useCallback((change: (value: T) => T) => {
    setState((before) => (before.value === undefined ? before : { ...before, value: change(before.value) }));
  }, []);
  return { ...state, reload, update };
}

export function useCall() {
  const [state, setState] = useState<{ busy: boolean; failure?: Failure }>({ busy: false });
  const run = async <T>(call: Promise<Result<T>>): Promise<Result<T>> => {
    setState({ busy: true });
    const result = await call;
    setState(result.ok ? { busy: false } : { busy: false, failure: result.failure });
    return result;
  };
  return { ...state, run };
}

const LOOK_MS = 5_000;
/** Events this close together have the same cause. */
const SAME_MS = 1_000;

/**
 * The screen's content must not outlive the session, nor remain when another tab has logged in as another
 * user.
 * @param onEnd the server is not asked, because a request would keep the session alive
 * @param onOther another user has logged in, or the session was in use in another tab
 */
export function useSessionEnd(
  caller: Caller | null,
  onEnd: () => void,
  onOther: (other: Caller) => void,
): void {
  useEffect(() => {
    if (caller === null) return undefined;
    const { ends_in: endsIn, idle_timeout: idle } = caller.session;
    const end = Date.now() + endsIn * 1000;
    const isOver = () => Date.now() >= Math.min(end, lastAnswerAt() + idle * 1000);
    const timer = setInterval(() => isOver() && onEnd(), LOOK_MS);
    const stop = onReturn(() => {
      const over = isOver();
      if (over) onEnd();
      void getCaller().then((result) => {
        if (result.ok && (over || result.value.user.id !== caller.user.id)) onOther(result.value);
      });
    });
    return () => {
      clearInterval(timer);
      stop();
    };
  }, [caller, onEnd, onOther]);
}

/** Calls `act` when the user comes back to the page; returns what stops that. */
export function onReturn(act: () => void): () => void {
  let cameAt = -Infinity;
  const comeBack = () => {
    // Coming back to a tab is also coming back to its window.
    if (document.hidden || performance.now() - cameAt < SAME_MS) return;
    cameAt = performance.now();
    act();
  };
  document.addEventListener('visibilitychange', comeBack);
  // Of two windows side by side, both are visible all the time.
  addEventListener('focus', comeBack);
  return () => {
    document.removeEventListener('visibilitychange', comeBack);
    removeEventListener('focus', comeBack);
  };
}

/** Deferred, because a closing dialog still holds the focus and then restores it. */
export function focusHeading(): void {
  setTimeout(() => document.querySelector('h1')?.focus());
}
