import type { Token } from '../types.js';

/** The limits of a token's own, as facts; nothing for a token without any. */
export function TokenLimits({ token: { rate, addresses } }: { readonly token: Token }) {
  return (
    <>
      {rate !== undefined && (
        <div>
          <dt>Rate</dt>
          <dd>{rate}</dd>
        </div>
      )}
      {addresses !== undefined && (
        <div>
          <dt>Addresses</dt>
          <dd>{addresses.join(', ')}</dd>
        </div>
      )}
    </>
  );
}

/** Marks of a token that is suspended, and of one with limits of its own. */
export function LimitMarks({ token: { suspended, rate, addresses } }: { readonly token: Token }) {
  return (
    <>
      {suspended === true && <span class="mark bad">Suspended</span>}
      {rate !== undefined && <span class="mark">{rate}</span>}
      {addresses !== undefined && (
        <span class="mark" title={addresses.join(', ')}>
          {addresses.length === 1 ? addresses[0] : `${addresses.length} addresses`}
        </span>
      )}
    </>
  );
}
