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
 * @param onOther called with another user who has logged in instead
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
    const look = () => {
      if (Date.now() >= Math.min(end, lastAnswerAt() + idle * 1000)) onEnd();
    };
    const timer = setInterval(look, LOOK_MS);
    let lookedAt = -Infinity;
    const comeBack = () => {
      if (document.hidden) return;
      look();
      // Coming back to a tab is also coming back to its window.
      if (performance.now() - lookedAt < SAME_MS) return;
      lookedAt = performance.now();
      void getCaller().then((result) => {
        if (result.ok && result.value.user.id !== caller.user.id) onOther(result.value);
      });
    };
    document.addEventListener('visibilitychange', comeBack);
    // Of two windows side by side, both are visible all the time.
    addEventListener('focus', comeBack);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', comeBack);
      removeEventListener('focus', comeBack);
    };
  }, [caller, onEnd, onOther]);
}
