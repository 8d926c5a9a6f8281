import { useRef, useState } from 'preact/hooks';
import { type Failure, type LimitChange, updateToken } from '../api.js';
import type { Token } from '../types.js';
import { nameOf, withFurther } from '../words.js';
import { Dialog } from './dialog.js';
import { Field, valueOf } from './field.js';
import { Problem } from './problem.js';
import { TokenFacts } from './token-facts.js';

interface LimitsDialogProps {
  readonly token: Token;
  /** Name of the owner; undefined for the caller's own token. */
  readonly owner?: string | undefined;
  readonly now: number;
  readonly onClose: () => void;
  /**
   * @param token the updated token; undefined when it no longer exists
   * @param others whether other tokens were suspended or resumed with it
   */
  readonly onChanged: (token: Token | undefined, message: string, others: boolean) => void;
}

/** Sets the request rate and the addresses of a token, suspends it and resumes it. */
export function LimitsDialog({ token, owner, now, onClose, onChanged }: LimitsDialogProps) {
  const form = useRef<HTMLFormElement>(null);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  const name = nameOf(token);
  const isSuspended = token.suspended === true;
  const change = async (wanted: LimitChange, message: (further?: number) => string) => {
    setBusy(true);
    setFailure(undefined);
    const result = await updateToken(token.id, wanted);
    if (result.ok) onChanged(result.value, message(result.further), result.further !== 0);
    else if (result.failure.kind === 'refused' && result.failure.status === 404)
      onChanged(undefined, `The token ${name} was revoked elsewhere.`, false);
    else {
      setBusy(false);
      setFailure(result.failure);
    }
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
        {failure !== undefined && failure.kind !== 'ended' && <Problem failure={failure} />}
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

/** Both limits in the form; an empty one is removed. */
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
