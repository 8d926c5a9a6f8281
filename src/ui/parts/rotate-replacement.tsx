import { useEffect, useRef } from 'preact/hooks';
import { useApp } from '../app-context.js';
import { useCreation } from '../creation.js';
import { LINKS } from '../routes.js';
import { formatDistance, formatMoment } from '../times.js';
import type { Token } from '../types.js';
import { scopeTitles, serviceNames } from '../words.js';
import { ConfirmFields } from './confirm-fields.js';
import { CreationProblem } from './creation-problem.js';
import { focusFirstError } from './field.js';
import { Secret } from './secret.js';
import { TokenLimits } from './token-limits.js';

interface RotateReplacementProps {
  readonly old: Token;
  /** A replacement that was made before, perhaps in a rotation that was left half-way. */
  readonly candidate: Token | undefined;
}

/** The first step: a token like the old one. Its expiry is as far away as the old one's was when that was made. */
export function RotateReplacement({ old, candidate }: RotateReplacementProps) {
  const { caller } = useApp();
  const form = useRef<HTMLFormElement>(null);
  const { busy, otp, faults, created, drop, create, missing, refuse } = useCreation();
  useEffect(() => focusFirstError(form.current), [faults]);
  const expiresAt = replacementExpiry(old, Date.now(), caller.max_lifetime);

  const submit = async (event: Event) => {
    event.preventDefault();
    const { current } = form;
    if (current === null || busy) return;
    const wrong = missing(current);
    if (Object.keys(wrong).length > 0) refuse(wrong);
    else {
      await create(current, {
        name: old.name,
        scopes: old.scopes,
        services: old.services,
        rate: old.rate,
        addresses: old.addresses,
        expiresAt: expiresAt === null ? null : `${new Date(expiresAt).toISOString().slice(0, 19)}Z`,
      });
    }
  };
  if (created !== null) {
    const next = LINKS.rotate(old.id, created.id);
    const stored = () => {
      drop();
      // In place of the step that is done: "back" must not lead to a form that would make a second replacement.
      location.replace(next);
    };
    return <Secret token={created} title="The replacement is ready" onStored={stored} />;
  }
  return (
    <>
      {candidate !== undefined && (
        <div class="notice">
          <p>
            A newer token like this one was made {formatDistance(Date.parse(candidate.created_at), Date.now())}.
          </p>
          <a class="button" href={LINKS.rotate(old.id, candidate.id)}>
            Continue with it
          </a>
        </div>
      )}
      <form ref={form} method="post" noValidate class="panel" onSubmit={(event) => void submit(event)}>
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
            <dd>{expiresAt === null ? longest(caller.max_lifetime) : formatMoment(expiresAt, Date.now())}</dd>
          </div>
        </dl>
        <ConfirmFields otp={otp} faults={faults.fields} />
        <CreationProblem failure={faults.failure} />
        <div class="buttons start">
          <button type="submit" class="button main" disabled={busy}>
            {busy ? 'Creating…' : 'Create the replacement'}
          </button>
        </div>
      </form>
    </>
  ); // prettier-ignore
}

function longest(maxLifetime: number | null): string {
  return maxLifetime === null ? 'Never' : 'Longest allowed';
}

function replacementExpiry(old: Token, now: number, maxLifetime: number | null): number | null {
  if (old.expires_at === null) return null;
  const life = Date.parse(old.expires_at) - Date.parse(old.created_at);
  // As long as the limit allows is what the server gives when nothing is asked for.
  return maxLifetime !== null && life >= maxLifetime * 1000 ? null : now + life;
}
