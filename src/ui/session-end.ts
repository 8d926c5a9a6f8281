import { useEffect } from 'preact/hooks';
import { getCaller, lastAnswerAt } from './api.js';
import type { Caller } from './types.js';

const LOOK_MS = 5_000;
/** Events this close together have the same cause. */
const SAME_MS = 1_000;

/**
 * Watches the session while a user is logged in.
 *
 * The screen's content must not outlive the session, nor remain when another tab has logged in as
 * another user.
 *
 * @param onEnd called when the session has timed out; the server is not asked, because a request
 * would keep the session alive
 * @param onOther called with another user who has logged in instead, or with the same one when the
 * session was in use in another tab
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

/**
 * Calls a function when the user comes back to the page, whose session may still be in use in
 * another tab.
 *
 * @param act null when it does not apply
 */
export function useReturn(act: (() => void) | null): void {
  useEffect(() => (act === null ? undefined : onReturn(act)), [act]);
}

/** Calls a function when the user comes back to the page; returns what stops that. */
function onReturn(act: () => void): () => void {
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
