import { useState } from 'preact/hooks';
import { mayLeave } from './address.js';
import {
  currentTime,
  isGone,
  type LimitChange,
  revokeToken,
  rotateToken,
  type Token,
  updateToken,
} from './api.js';
import { useApp, useCall } from './app.js';
import { Field, Select, valueOf } from './form.js';
import { Dialog, DialogForm, Expiry, Facts, LastUse, limitsOf, TokenFacts } from './parts.js';
import { Secret, useSecret } from './secret.js';
import { overlapChoices, replacementExpiry } from './tokens.js';
import { formatDistance, formatMoment, nameOf, scopeTitles, serviceNames, withFurther } from './words.js';

interface TokenDialogProps {
  readonly token: Token;
  /** Undefined for the caller's own token. */
  readonly owner?: string | undefined;
  /** Undefined unless the token was rotated. */
  readonly replacement: Token | undefined;
  readonly onClose: () => void;
  readonly onReload: () => void;
  /**
   * @param token undefined when it no longer exists
   * @param others whether tokens that came from it by rotation were changed with it
   */
  readonly onDone: (token: Token | undefined, message: string, others: boolean) => void;
}

function LimitsDialog({ token, owner, onClose, onDone }: TokenDialogProps) {
  const { busy, failure, run } = useCall();
  const name = nameOf(token);
  const isSuspended = token.suspended === true;
  const change = async (wanted: LimitChange, message: (further?: number) => string) => {
    const result = await run(updateToken(token.id, wanted));
    if (result.ok) onDone(result.value, message(result.further), result.further !== 0);
    else if (isGone(result.failure)) onDone(undefined, `The token ${name} was revoked elsewhere.`, false);
  };
  const suspend = () =>
    void change({ suspended: !isSuspended }, (further) => suspension(name, !isSuspended, further));
  return (
    <DialogForm
      title={`Limits of ${name}`}
      busy={busy}
      failure={failure}
      cancel="Cancel"
      submit="Save limits"
      more={
        <button type="button" class={isSuspended ? 'button' : 'button bad'} disabled={busy} onClick={suspend}>
          {isSuspended ? 'Resume token' : 'Suspend token'}
        </button>
      }
      onClose={onClose}
      onSubmit={(form) => void change(readLimits(form), () => `The limits of ${name} were saved.`)}
    >
      <TokenFacts token={token} owner={owner} />
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
    </DialogForm>
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

function RevokeDialog({ token, owner, onClose, onDone }: TokenDialogProps) {
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
    <DialogForm
      title={`Revoke ${name}?`}
      busy={busy}
      failure={failure}
      cancel="Keep it"
      submit="Revoke token"
      isDangerous
      onClose={onClose}
      onSubmit={() => void revoke()}
    >
      <p>
        {token.last_seen_at === null
          ? 'It was never used. '
          : `It was last used ${formatDistance(Date.parse(token.last_seen_at), currentTime())}. `}
        Requests with it are refused at once, and it cannot be restored. The tokens that replaced it end with
        it.
      </p>
      <TokenFacts token={token} owner={owner} />
    </DialogForm>
  );
}

/** Creates a replacement, shows its secret, and then how far the clients have moved. */
function RotateDialog({ token, replacement, onClose, onReload }: TokenDialogProps) {
  const { created, drop, receive } = useSecret();
  const { busy, failure, run } = useCall();
  const { caller } = useApp();
  const [overlap, setOverlap] = useState(caller.rotation.overlap);
  const rotate = async () => {
    await run(receive(rotateToken(token.id, overlap)));
    // Even without an answer, it may have been rotated.
    onReload();
  };
  const title = `Rotate ${nameOf(token)}`;
  const close = () => mayLeave() && onClose();
  if (created !== null)
    return (
      <Dialog title={title} onClose={close}>
        <Secret token={created} title="The replacement is ready" onStored={drop} />
      </Dialog>
    );
  if (replacement !== undefined)
    return (
      <DialogForm title={title} cancel="Close" submit="Check again" onClose={onClose} onSubmit={onReload}>
        <Progress old={token} made={replacement} />
      </DialogForm>
    );
  const expiresAt = replacementExpiry(token, currentTime(), caller.max_lifetime);
  return (
    <DialogForm
      title={title}
      busy={busy}
      failure={failure}
      explanation={
        failure?.kind === 'no_answer' &&
        'The server did not respond. Check your connection and reload this page: it says whether the token was rotated.'
      }
      cancel="Cancel"
      submit="Create the replacement"
      onClose={close}
      onSubmit={() => void rotate()}
    >
      <p>The replacement has a new secret. Both tokens work until the old one ends, so nothing is interrupted.</p>
      <Facts
        across
        facts={[
          ['Scope', scopeTitles(token.scopes, caller.scopes)],
          ['Services', serviceNames(token.services, caller.services)],
          ...limitsOf(token),
          ['Expires', expiresAt === null ? 'Never' : formatMoment(expiresAt, currentTime())],
        ]}
      />
      <Select
        label="The old token ends"
        name="overlap"
        value={String(overlap)}
        options={overlapChoices(caller.rotation)}
        onChange={(seconds) => setOverlap(Number(seconds))}
      />
    </DialogForm>
  ); // prettier-ignore
}

function Progress({ old, made }: { readonly old: Token; readonly made: Token }) {
  return (
    <>
      <p>
        It was rotated {formatDistance(Date.parse(made.created_at), currentTime())}, and a token can be rotated once.
        Give the new secret to every client of the old token. Do not revoke the old one while the new one is in use:
        that would end both. If nobody has the new secret, or you did not rotate the token, revoke the old one and
        create a new token.
      </p>
      <div role="status">
        <Facts
          across
          facts={[
            ['Old token last used', <LastUse token={old} />],
            ['New token last used', <LastUse token={made} />],
            ['The old token ends', <Expiry time={old.expires_at} />],
          ]}
        />
      </div>
    </>
  ); // prettier-ignore
}

export const DIALOGS = { rotate: RotateDialog, limits: LimitsDialog, revoke: RevokeDialog } as const;
