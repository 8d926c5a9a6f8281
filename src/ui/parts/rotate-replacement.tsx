import { useId, useState } from 'preact/hooks';
import { useApp } from '../app-context.js';
import type { Failure } from '../api.js';
import { currentTime } from '../clock.js';
import { useRotation } from '../creation.js';
import { overlapChoices } from '../rotation.js';
import { LINKS } from '../routes.js';
import { formatDistance, formatMoment } from '../times.js';
import type { Token } from '../types.js';
import { scopeTitles, serviceNames } from '../words.js';
import { Problem } from './problem.js';
import { Secret } from './secret.js';
import { TokenLimits } from './token-limits.js';

interface RotateReplacementProps {
  readonly old: Token;
  /** The replacement, if the token was rotated before. */
  readonly candidate: Token | undefined;
}

/**
 * The first step: creates a replacement, after which the old token ends once the overlap has
 * passed. The replacement gets the lifetime that the old token had.
 */
export function RotateReplacement({ old, candidate }: RotateReplacementProps) {
  const { caller } = useApp();
  const overlapId = useId();
  const [overlap, setOverlap] = useState(caller.rotation.overlap);
  const { busy, failure, created, drop, rotate } = useRotation();
  const expiresAt = replacementExpiry(old, currentTime(), caller.max_lifetime);

  const submit = (event: Event) => {
    event.preventDefault();
    if (!busy) void rotate(old.id, overlap);
  };
  if (created !== null) {
    const next = LINKS.rotate(old.id, created.id);
    const stored = () => {
      drop();
      // Replaces the history entry, because "back" must not lead to a form that would create a
      // second replacement.
      location.replace(next);
    };
    return <Secret token={created} title="The replacement is ready" onStored={stored} />;
  }
  if (candidate !== undefined)
    return (
      <div class="notice">
        <p>
          This token was rotated {formatDistance(Date.parse(candidate.created_at), currentTime())}. A token
          can be rotated once. If nobody has the secret of the replacement, create a new token and revoke this
          one. If you did not rotate it, it leaked: revoke it, which ends its replacement too.
        </p>
        <a class="button" href={LINKS.rotate(old.id, candidate.id)}>
          Continue with it
        </a>
      </div>
    );
  return (
      <form method="post" noValidate class="panel" onSubmit={submit}>
        <h2>The replacement</h2>
        <dl class="facts across">
          <div>
            <dt>Scope</dt>
            <dd>{scopeTitles(old.scopes, caller.scopes)}</dd>
          </div>
          <div>
            <dt>Services</dt>
            <dd>{serviceNames(old.services, caller.services)}</dd>
          </div>
          <TokenLimits token={old} />
          <div>
            <dt>Expires</dt>
            <dd>{expiresAt === null ? 'Never' : formatMoment(expiresAt, currentTime())}</dd>
          </div>
        </dl>
        <div class="field">
          <label for={overlapId}>The old token ends</label>
          <select
            id={overlapId}
            value={String(overlap)}
            onChange={({ currentTarget }) => setOverlap(Number(currentTarget.value))}
          >
            {overlapChoices(caller.rotation).map(({ seconds, label }) => (
              <option key={seconds} value={String(seconds)}>
                {label}
              </option>
            ))}
          </select>
        </div>
        <RotationProblem failure={failure} />
        <div class="buttons start">
          <button type="submit" class="button main" disabled={busy}>
            {busy ? 'Creating…' : 'Create the replacement'}
          </button>
        </div>
      </form>
  ); // prettier-ignore
}

function RotationProblem({ failure }: { readonly failure: Failure | undefined }) {
  if (failure === undefined || failure.kind === 'ended') return null;
  if (failure.kind !== 'no_answer') return <Problem failure={failure} />;
  return (
    <Problem>
      The server did not respond. Check your connection and reload this page: it says whether the token was rotated.
    </Problem>
  ); // prettier-ignore
}

/**
 * @param like the token whose lifetime is used
 * @param maxLifetime seconds; null when there is no limit
 */
function replacementExpiry(like: Token, now: number, maxLifetime: number | null): number | null {
  const life =
    like.expires_at === null ? Infinity : Date.parse(like.expires_at) - Date.parse(like.created_at);
  const lasts = Math.min(life, maxLifetime === null ? Infinity : maxLifetime * 1000);
  return lasts === Infinity ? null : now + lasts;
}
