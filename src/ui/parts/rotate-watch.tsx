import { useEffect } from 'preact/hooks';
import { useNow } from '../loading.js';
import { type RotationState, rotationState } from '../rotation.js';
import { formatDistance, formatMoment } from '../times.js';
import type { Token } from '../types.js';
import { describeClient } from '../words.js';
import { TokenFacts } from './token-facts.js';

interface RotateWatchProps {
  readonly old: Token;
  readonly replacement: Token;
  readonly refreshing: boolean;
  readonly onRefresh: () => void;
  /** Reports which of the three steps is current, counted from 0. */
  readonly onStep: (step: number) => void;
}

/** The second and third step: both tokens with their last use, and when the old one ends. */
export function RotateWatch({ old, replacement, refreshing, onRefresh, onStep }: RotateWatchProps) {
  const now = useNow(5_000);
  const state = rotationState(old, replacement, now);
  const ready = state === 'quiet' || state === 'never_used' || state === 'ended';
  useEffect(() => onStep(ready ? 2 : 1), [ready, onStep]);
  return (
    <section class="panel">
      <p class={ready ? 'notice good' : 'notice warn'} role="status">
        {advice(state, old, now)}
      </p>
      <div class="pair">
        <TokenCard title="Old token" token={old} now={now} />
        <TokenCard title="New token" token={replacement} now={now} />
      </div>
      <div class="buttons start">
        <button type="button" class="button" disabled={refreshing} onClick={onRefresh}>
          Check again
        </button>
      </div>
      {state !== 'ended' && (
        <p class="hint">
          {old.expires_at !== null &&
            `The old token expires on its own: ${formatMoment(Date.parse(old.expires_at), now)}. `}
          Do not revoke it: that would end the new token too. You can leave this page and come back later:
          choose Rotate on the old token again.
        </p>
      )}
    </section>
  );
}

function TokenCard({ title, token, now }: { readonly title: string; readonly token: Token; readonly now: number }) {
  return (
    <div class="card">
      <h2>{title}</h2>
      <TokenFacts token={token} now={now} />
    </div>
  );
} // prettier-ignore

function advice(state: RotationState, old: Token, now: number): string {
  const ago = old.last_seen_at === null ? '' : formatDistance(Date.parse(old.last_seen_at), now);
  switch (state) {
    case 'ended':
      return old.last_seen_at === null
        ? 'The old token has ended. It was never used.'
        : `The old token has ended. It was last used ${ago}, by ${describeClient(old.user_agent)} from ${old.ip}.`;
    case 'never_used':
      return 'The old token was never used.';
    case 'not_taken_up':
      return 'No client has used the new token yet. Give its secret to the clients that use the old one.';
    case 'both_used':
      return `The old token is still in use: ${ago}, by ${describeClient(old.user_agent)} from ${old.ip}. Give that client the new secret; the old token counts as unused after 15 minutes without a request.`;
    case 'quiet':
      return `The new token is in use, and the old one was last used ${ago}.`;
  }
}
