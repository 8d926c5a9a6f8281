import { useRef } from 'preact/hooks';
import { isGone, type LimitChange, revokeToken, type Token, updateToken } from './api.js';
import { useCall } from './app.js';
import { Field, valueOf } from './form.js';
import { Dialog, Problem, TokenFacts } from './parts.js';
import { formatDistance, nameOf, withFurther } from './words.js';

interface TokenDialogProps {
  readonly token: Token;
  /** Undefined for the caller's own token. */
  readonly owner?: string | undefined;
  readonly now: number;
  readonly onClose: () => void;
  /**
   * @param token undefined when it no longer exists
   * @param others whether tokens that came from it by rotation were changed with it
   */
  readonly onDone: (token: Token | undefined, message: string, others: boolean) => void;
}

export function LimitsDialog({ token, owner, now, onClose, onDone }: TokenDialogProps) {
  const form = useRef<HTMLFormElement>(null);
  const { busy, failure, run } = useCall();
  const name = nameOf(token);
  const isSuspended = token.suspended === true;
  const change = async (wanted: LimitChange, message: (further?: number) => string) => {
    const result = await run(updateToken(token.id, wanted));
    if (result.ok) onDone(result.value, message(result.further), result.further !== 0);
    else if (isGone(result.failure)) onDone(undefined, `The token ${name} was revoked elsewhere.`, false);
  };
  const save = async (event: Event) => {
    event.preventDefault();
    if (form.current !== null && !busy)
      await change(readLimits(form.current), () => `The limits of ${name} were saved.`);
  };
  return (
    <Dialog title={`Limits of ${name}`} onClose={busy ? () => undefined : onClose}>
      <TokenFacts token={token} owner={owner} now={now} />
      <form ref={form} method="post" noValidate onSubmit={(event) => void save(event)}>
        <Field
          label="Request rate"
          name="rate"
          hint="Requests per period, like 600/1m for 600 a minute. Leave it empty for no limit of its own."
          defaultValue={token.rate ?? ''}
          autoComplete="off"
          spellcheck={false}
        />
        <Field
          label="Addresses"
          name="addresses"
          hint="IP addresses and ranges like 10.0.0.0/8 that the token is accepted from, separated by spaces. Leave it empty for no limit of its own."
          defaultValue={(token.addresses ?? []).join(' ')}
          autoComplete="off"
          spellcheck={false}
        />
        <Problem failure={failure} />
        <div class="buttons">
          <button type="button" class="button" disabled={busy} onClick={onClose}>
            Cancel
          </button>
          <button
            type="button"
            class={isSuspended ? 'button' : 'button bad'}
            disabled={busy}
            onClick={() =>
              void change({ suspended: !isSuspended }, (further) => suspension(name, !isSuspended, further))
            }
          >
            {isSuspended ? 'Resume token' : 'Suspend token'}
          </button>
          <button type="submit" class="button main" disabled={busy}>
            Save limits
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** An empty limit is removed. */
function readLimits(form: HTMLFormElement): LimitChange {
  const rate = valueOf(form, 'rate').trim();
  const addresses = valueOf(form, 'addresses')
    .split(/[\s,]+/)
    .filter((each) => each !== '');
  return { rate: rate === '' ? null : rate, addresses: addresses.length === 0 ? null : addresses };
}

function suspension(name: string, suspended: boolean, further?: number): string {
  return suspended
    ? `The token ${name} is suspended${withFurther(further)}: it is refused until you resume it.`
    : `The token ${name} is accepted again${withFurther(further)}.`;
}

export function RevokeDialog({ token, owner, now, onClose, onDone }: TokenDialogProps) {
  const { busy, failure, run } = useCall();
  const name = nameOf(token);
  const revoke = async () => {
    const result = await run(revokeToken(token.id));
    if (result.ok)
      onDone(undefined, `The token ${name} was revoked${withFurther(result.further)}.`, result.further !== 0);
    else if (isGone(result.failure))
      onDone(undefined, `The token ${name} was already revoked elsewhere.`, false);
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
      <Problem failure={failure} />
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
