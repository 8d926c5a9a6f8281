import type { ComponentChildren } from 'preact';
import { useId, useRef, useState } from 'preact/hooks';
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
import { Field, valueOf } from './form.js';
import { Dialog, Fact, LastUse, Moment, Problem, TokenFacts, TokenLimits } from './parts.js';
import { Secret, useSecret } from './secret.js';
import { advice, overlapChoices, replacementExpiry, rotationState, type RotationState } from './tokens.js';
import { formatDistance, formatMoment, nameOf, scopeTitles, serviceNames, withFurther } from './words.js';

interface TokenDialogProps {
  readonly token: Token;
  /** Undefined for the caller's own token. */
  readonly owner?: string | undefined;
  /** Undefined unless the token was rotated. */
  readonly replacement: Token | undefined;
  readonly now: number;
  readonly onClose: () => void;
  /** Fetches all tokens again. */
  readonly onReload: () => void;
  /**
   * @param token undefined when it no longer exists
   * @param others whether tokens that came from it by rotation were changed with it
   */
  readonly onDone: (token: Token | undefined, message: string, others: boolean) => void;
}

function LimitsDialog({ token, owner, now, onClose, onDone }: TokenDialogProps) {
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

function RevokeDialog({ token, owner, now, onClose, onDone }: TokenDialogProps) {
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

/** Creates a replacement, shows its secret, and then how far the clients have moved. */
function RotateDialog({ token, replacement, onClose, onReload }: TokenDialogProps) {
  const { created, drop, receive } = useSecret();
  const { busy, failure, run } = useCall();
  const rotate = async (overlap: number) => {
    if (!busy && (await run(receive(rotateToken(token.id, overlap)))).ok) onReload();
  };
  return (
    <Dialog title={`Rotate ${nameOf(token)}`} onClose={() => mayLeave() && onClose()}>
      {created !== null && <Secret token={created} title="The replacement is ready" onStored={drop} />}
      {created === null && replacement !== undefined && (
        <Progress old={token} made={replacement} onClose={onClose} onReload={onReload} />
      )}
      {created === null && replacement === undefined && (
        <Replacement old={token} busy={busy} onClose={onClose} onSubmit={(overlap) => void rotate(overlap)}>
          <Problem failure={failure}>
            {failure?.kind === 'no_answer' &&
              'The server did not respond. Check your connection and reload this page: it says whether the token was rotated.'}
          </Problem>
        </Replacement>
      )}
    </Dialog>
  );
}

interface ReplacementProps {
  readonly old: Token;
  readonly busy: boolean;
  readonly onClose: () => void;
  readonly onSubmit: (overlap: number) => void;
  readonly children: ComponentChildren;
}

function Replacement({ old, busy, onClose, onSubmit, children }: ReplacementProps) {
  const { caller } = useApp();
  const id = useId();
  const [overlap, setOverlap] = useState(caller.rotation.overlap);
  const expiresAt = replacementExpiry(old, currentTime(), caller.max_lifetime);
  const submit = (event: Event) => {
    event.preventDefault();
    onSubmit(overlap);
  };
  return (
    <form method="post" noValidate onSubmit={submit}>
      <p>The replacement has a new secret. Both tokens work until the old one ends, so nothing is interrupted.</p>
      <dl class="facts across">
        <Fact label="Scope">{scopeTitles(old.scopes, caller.scopes)}</Fact>
        <Fact label="Services">{serviceNames(old.services, caller.services)}</Fact>
        <TokenLimits token={old} />
        <Fact label="Expires">{expiresAt === null ? 'Never' : formatMoment(expiresAt, currentTime())}</Fact>
      </dl>
      <div class="field">
        <label for={id}>The old token ends</label>
        <select id={id} value={String(overlap)} onChange={({ currentTarget }) => setOverlap(Number(currentTarget.value))}>
          {overlapChoices(caller.rotation).map(({ seconds, label }) => (
            <option key={seconds} value={String(seconds)}>
              {label}
            </option>
          ))}
        </select>
      </div>
      {children}
      <div class="buttons">
        <button type="button" class="button" disabled={busy} onClick={onClose}>
          Cancel
        </button>
        <button type="submit" class="button main" disabled={busy}>
          {busy ? 'Creating…' : 'Create the replacement'}
        </button>
      </div>
    </form>
  ); // prettier-ignore
}

/** Where nothing is left to do but wait for the old token's end. */
const READY: readonly RotationState[] = ['quiet', 'never_used', 'ended'];

interface ProgressProps extends Pick<TokenDialogProps, 'onClose' | 'onReload'> {
  readonly old: Token;
  readonly made: Token;
}

function Progress({ old, made, onClose, onReload }: ProgressProps) {
  const now = currentTime();
  const state = rotationState(old, made, now);
  return (
    <>
      <p class={READY.includes(state) ? 'notice good' : 'notice warn'} role="status">
        {advice(state, old, now)}
      </p>
      <dl class="facts across">
        <Fact label="Old token">
          <LastUse token={old} now={now} />
        </Fact>
        <Fact label="New token">
          <LastUse token={made} now={now} />
        </Fact>
        {old.expires_at !== null && (
          <Fact label="The old token ends">
            <Moment time={old.expires_at} now={now} />
          </Fact>
        )}
      </dl>
      <p class="hint">
        It was rotated {formatDistance(Date.parse(made.created_at), now)}, and a token can be rotated once. Do not
        revoke it while the new one is in use: that would end both. If nobody has the new secret, or you did not
        rotate it, revoke it and create a new token.
      </p>
      <div class="buttons">
        <button type="button" class="button" onClick={onReload}>
          Check again
        </button>
        <button type="button" class="button main" onClick={onClose}>
          Close
        </button>
      </div>
    </>
  ); // prettier-ignore
}

export const DIALOGS = { rotate: RotateDialog, limits: LimitsDialog, revoke: RevokeDialog } as const;
