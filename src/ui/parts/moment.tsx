import { expiryState, formatDistance, formatMoment, formatUtc } from '../times.js';

/** A time in the reader's zone; UTC and the distance show on hover. */
export function Moment({ time, now }: { readonly time: string; readonly now: number }) {
  const at = Date.parse(time);
  return (
    <time dateTime={time} title={`${formatUtc(at)} (${formatDistance(at, now)})`}>
      {formatMoment(at, now)}
    </time>
  );
}

/** When a token expires, with a mark when that is soon or past. The mark is a word, not only a colour. */
export function Expiry({ time, now }: { readonly time: string | null; readonly now: number }) {
  const state = expiryState(time, now);
  if (time === null) return <span class="quiet">Never</span>;
  return (
    <span class="stack">
      {state === 'soon' && <span class="mark warn">Expires {formatDistance(Date.parse(time), now)}</span>}
      {state === 'past' && <span class="mark bad">Expired</span>}
      <Moment time={time} now={now} />
    </span>
  );
}
