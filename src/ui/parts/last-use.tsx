import type { Token } from '../types.js';
import { describeClient } from '../words.js';
import { Moment } from './moment.js';

/** When a token was last used, and from which address and client. */
export function LastUse({ token, now }: { readonly token: Token; readonly now: number }) {
  if (token.last_seen_at === null) return <span class="quiet">Not used yet</span>;
  return (
    <span class="stack">
      <Moment time={token.last_seen_at} now={now} />
      <span class="quiet" title={token.user_agent ?? undefined}>
        {token.ip} · {describeClient(token.user_agent)}
      </span>
    </span>
  );
}
