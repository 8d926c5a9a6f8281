import type { Token } from '../types.js';
import { LastUse } from './last-use.js';
import { Moment } from './moment.js';
import { TokenLimits } from './token-limits.js';

interface TokenFactsProps {
  readonly token: Token;
  /** Name of the owner; undefined for the caller's own token. */
  readonly owner?: string | undefined;
  readonly now: number;
}

/** The facts that identify a token: owner, creation time, and last use. */
export function TokenFacts({ token, owner, now }: TokenFactsProps) {
  return (
    <dl class="facts">
      {owner !== undefined && (
        <div>
          <dt>Owner</dt>
          <dd>{owner}</dd>
        </div>
      )}
      <div>
        <dt>Id</dt>
        <dd>
          <code>{token.id}</code>
        </dd>
      </div>
      <TokenLimits token={token} />
      <div>
        <dt>Created</dt>
        <dd>
          <Moment time={token.created_at} now={now} />
        </dd>
      </div>
      <div>
        <dt>Last used</dt>
        <dd>
          <LastUse token={token} now={now} />
        </dd>
      </div>
    </dl>
  );
}
