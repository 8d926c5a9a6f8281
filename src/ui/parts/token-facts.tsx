import type { Token } from '../types.js';
import { LastUse } from './last-use.js';
import { Moment } from './moment.js';
import { TokenLimits } from './token-limits.js';

interface TokenFactsProps {
  readonly token: Token;
  /** Whose it is; undefined when it is the caller's. */
  readonly owner?: string | undefined;
  readonly now: number;
}

/** What tells a token from another one: whose it is, when it was made, when and by whom it was last used. */
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
