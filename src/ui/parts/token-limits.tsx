import type { Token } from '../types.js';

/** A token's own limits, as facts; nothing for a token without any. */
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

/** Marks for a suspended token, and for one with its own limits. */
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
