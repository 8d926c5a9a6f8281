import { useState } from 'preact/hooks';
import { type Failure, revokeToken } from '../api.js';
import type { Token } from '../types.js';
import { nameOf, withFurther } from '../words.js';
import { formatDistance } from '../times.js';
import { Dialog } from './dialog.js';
import { Problem } from './problem.js';
import { TokenFacts } from './token-facts.js';

interface RevokeDialogProps {
  readonly token: Token;
  /** Name of the owner; undefined for the caller's own token. */
  readonly owner?: string | undefined;
  readonly now: number;
  readonly onClose: () => void;
  /** @param others whether other tokens were revoked with it */
  readonly onRevoked: (message: string, others: boolean) => void;
}

/** Asks before a token is revoked, showing the token and its last use. */
export function RevokeDialog({ token, owner, now, onClose, onRevoked }: RevokeDialogProps) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  const name = nameOf(token);
  const revoke = async () => {
    setBusy(true);
    setFailure(undefined);
    const result = await revokeToken(token.id);
    if (result.ok)
      onRevoked(`The token ${name} was revoked${withFurther(result.further)}.`, result.further !== 0);
    else if (result.failure.kind === 'refused' && result.failure.status === 404) {
      onRevoked(`The token ${name} was already revoked elsewhere.`, false);
    } else {
      setBusy(false);
      setFailure(result.failure);
    }
  };
  return (
    <Dialog title={`Revoke ${name}?`} onClose={busy ? () => undefined : onClose}>
      <p>
        {token.last_seen_at === null
          ? 'It was never used. '
          : `It was last used ${formatDistance(Date.parse(token.last_seen_at), now)}. `}
        Requests with it are refused at once, and it cannot be restored. The tokens that replaced it end with
        it.
      </p>
      <TokenFacts token={token} owner={owner} now={now} />
      {failure !== undefined && failure.kind !== 'ended' && <Problem failure={failure} />}
      <div class="buttons">
        <button type="button" class="button" disabled={busy} onClick={onClose}>
          Keep it
        </button>
        <button type="button" class="button danger" disabled={busy} onClick={() => void revoke()}>
          {busy ? 'Revoking…' : 'Revoke token'}
        </button>
      </div>
    </Dialog>
  );
}
