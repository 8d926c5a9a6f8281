import { useEffect, useId, useState } from 'preact/hooks';
import { LINKS } from './address.js';
import { currentTime, type Failure, getToken, listTokens, type Result, type Token } from './api.js';
import { useApp, useLoaded, useNow } from './app.js';
import { Problem, TokenFacts, TokenLimits } from './parts.js';
import { Secret, useRotation } from './secret.js';
import { findReplacement, overlapChoices, type RotationState, rotationState } from './tokens.js';
import { describeClient, formatDistance, formatMoment, nameOf, scopeTitles, serviceNames } from './words.js';

interface RotateProps {
  readonly id: string;
  readonly replacement: string | null;
}

const STEPS = ['Create a replacement', 'Move your clients', 'The old one ends'];
/** Interval at which the last uses are refreshed while the clients switch over. */
const REFRESH_MS = 5_000;
/**
 * Maximum number of refreshes. Each one keeps the session alive, so an unattended page must stop.
 */
const MAX_REFRESHES = 120;

/** Leads from one token to another without interruption: both work until the old one is revoked. */
export function Rotate({ id, replacement }: RotateProps) {
  const { caller } = useApp();
  const list = useLoaded(() => (replacement === null ? listTokens() : getBoth(id, replacement)));
  const [step, setStep] = useState(replacement === null ? 0 : 1);
  const { reload } = list;
  useEffect(() => {
    if (step === 0) return undefined;
    let left = MAX_REFRESHES;
    const timer = setInterval(() => {
      if (document.hidden || left-- <= 0) return;
      reload();
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [step, reload]);

  const old = list.value?.find((token) => token.id === id && token.user_id === caller.user.id);
  const made = list.value?.find((token) => token.id === replacement);
  const candidate =
    old === undefined || list.value === undefined ? undefined : findReplacement(old, list.value);
  return (
    <div class="narrow">
      <a class="back" href={LINKS.tokens}>
        <span aria-hidden="true">← </span>My tokens
      </a>
      <h1 tabIndex={-1}>{old === undefined ? 'Rotate a token' : `Rotate ${nameOf(old)}`}</h1>
      <p class="lead">Get a new secret without an interruption: both tokens work until the old one expires.</p>
      <ol class="steps">
        {STEPS.map((label, i) => (
          <li key={label} aria-current={i === step ? 'step' : undefined} class={i < step ? 'done' : ''}>
            {label}
            {i < step && <span class="unseen"> (done)</span>}
          </li>
        ))}
      </ol>
      <LoadProblem failure={list.failure} onRetry={reload} />
      {list.value === undefined && list.loading && <div class="skeleton" aria-busy="true"><div /></div>}
      {list.value !== undefined && old === undefined && (
        <Gone>This is not one of your tokens: it was revoked, or it belongs to someone else.</Gone>
      )}
      {old !== undefined && replacement === null && <RotateReplacement old={old} candidate={candidate} />}
      {old !== undefined && replacement !== null && made === undefined && (
        <Gone>The new token was revoked in the meantime. The old one still works.</Gone>
      )}
      {old !== undefined && made !== undefined && (
        <RotateWatch old={old} replacement={made} refreshing={list.loading} onRefresh={reload} onStep={setStep} />
      )}
    </div>
  ); // prettier-ignore
}

/** Returns both tokens, without those that no longer exist. */
async function getBoth(id: string, replacement: string): Promise<Result<Token[]>> {
  const results = await Promise.all([getToken(id), getToken(replacement)]);
  const tokens: Token[] = [];
  for (const result of results) {
    if (result.ok) tokens.push(result.value);
    else if (result.failure.kind !== 'refused' || result.failure.status !== 404) return result;
  }
  return { ok: true, value: tokens };
}

function LoadProblem({ failure, onRetry }: { failure: Failure | undefined; onRetry: () => void }) {
  if (failure === undefined || failure.kind === 'ended') return null;
  return <Problem failure={failure} onRetry={onRetry} />;
}

function Gone({ children }: { readonly children: string }) {
  return (
    <div class="empty">
      <h2>Nothing to rotate</h2>
      <p>{children}</p>
      <a class="button" href={LINKS.tokens}>
        Back to my tokens
      </a>
    </div>
  );
}

interface RotateReplacementProps {
  readonly old: Token;
  /** The replacement, if the token was rotated before. */
  readonly candidate: Token | undefined;
}

/**
 * The first step: creates a replacement, after which the old token ends once the overlap has
 * passed. The replacement gets the lifetime that the old token had.
 */
function RotateReplacement({ old, candidate }: RotateReplacementProps) {
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

interface RotateWatchProps {
  readonly old: Token;
  readonly replacement: Token;
  readonly refreshing: boolean;
  readonly onRefresh: () => void;
  /** Reports which of the three steps is current, counted from 0. */
  readonly onStep: (step: number) => void;
}

/** The second and third step: both tokens with their last use, and when the old one ends. */
function RotateWatch({ old, replacement, refreshing, onRefresh, onStep }: RotateWatchProps) {
  const now = useNow(5_000);
  const state = rotationState(old, replacement, now);
  const ready = state === 'quiet' || state === 'never_used' || state === 'ended';
  useEffect(() => onStep(ready ? 2 : 1), [ready, onStep]);
  return (
    <section class="panel">
      <p class={ready ? 'notice good' : 'notice warn'} role="status">
        {advice(state, old, now)}
      </p>
      <div class="pair">
        <TokenCard title="Old token" token={old} now={now} />
        <TokenCard title="New token" token={replacement} now={now} />
      </div>
      <div class="buttons start">
        <button type="button" class="button" disabled={refreshing} onClick={onRefresh}>
          Check again
        </button>
      </div>
      {state !== 'ended' && (
        <p class="hint">
          {old.expires_at !== null &&
            `The old token expires on its own: ${formatMoment(Date.parse(old.expires_at), now)}. `}
          Do not revoke it: that would end the new token too. You can leave this page and come back later:
          choose Rotate on the old token again.
        </p>
      )}
    </section>
  );
}

function TokenCard({ title, token, now }: { readonly title: string; readonly token: Token; readonly now: number }) {
  return (
    <div class="card">
      <h2>{title}</h2>
      <TokenFacts token={token} now={now} />
    </div>
  );
} // prettier-ignore

function advice(state: RotationState, old: Token, now: number): string {
  const ago = old.last_seen_at === null ? '' : formatDistance(Date.parse(old.last_seen_at), now);
  switch (state) {
    case 'ended':
      return old.last_seen_at === null
        ? 'The old token has ended. It was never used.'
        : `The old token has ended. It was last used ${ago}, by ${describeClient(old.user_agent)} from ${old.ip}.`;
    case 'never_used':
      return 'The old token was never used.';
    case 'not_taken_up':
      return 'No client has used the new token yet. Give its secret to the clients that use the old one.';
    case 'both_used':
      return `The old token is still in use: ${ago}, by ${describeClient(old.user_agent)} from ${old.ip}. Give that client the new secret; the old token counts as unused after 15 minutes without a request.`;
    case 'quiet':
      return `The new token is in use, and the old one was last used ${ago}.`;
  }
}
