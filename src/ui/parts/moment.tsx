import { expiryState, formatDistance, formatMoment, formatUtc } from '../times.js';

/** A time in the user's time zone. UTC and the relative time are shown on hover. */
export function Moment({ time, now }: { readonly time: string; readonly now: number }) {
  const at = Date.parse(time);
  return (
    <time dateTime={time} title={`${formatUtc(at)} (${formatDistance(at, now)})`}>
      {formatMoment(at, now)}
    </time>
  );
}

interface ExpiryProps {
  readonly time: string | null;
  /** Milliseconds before the expiry from which on it is marked. */
  readonly warnBefore: number;
  readonly now: number;
}

/**
 * When a token expires, with a mark when that is soon or past. The mark is text, not only a colour.
 */
export function Expiry({ time, warnBefore, now }: ExpiryProps) {
  const state = expiryState(time, warnBefore, now);
  if (time === null) return <span class="quiet">Never</span>;
  return (
    <span class="stack">
      {state === 'soon' && <span class="mark warn">Expires {formatDistance(Date.parse(time), now)}</span>}
      {state === 'past' && <span class="mark bad">Expired</span>}
      <Moment time={time} now={now} />
    </span>
  );
}
