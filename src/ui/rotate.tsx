import { useEffect, useId, useState } from 'preact/hooks';
import { LINKS } from './address.js';
import { currentTime, getToken, isGone, listTokens, type Result, rotateToken, type Token } from './api.js';
import { useApp, useCall, useLoaded, useNow } from './app.js';
import { Fact, Problem, Skeleton, TokenFacts, TokenLimits } from './parts.js';
import { Secret, useSecret } from './secret.js';
import { findReplacement, overlapChoices, type RotationState, rotationState } from './tokens.js';
import { describeClient, formatDistance, formatMoment, nameOf, scopeTitles, serviceNames } from './words.js';

const STEPS = ['Create a replacement', 'Move your clients', 'The old one ends'];
/** While the clients switch over. */
const REFRESH_MS = 5_000;
/** Each refresh keeps the session alive, so an unattended page must stop. */
const MAX_REFRESHES = 120;

/** Nothing is left to do but wait for the old token's end. */
const READY: readonly RotationState[] = ['quiet', 'never_used', 'ended'];

interface RotateProps {
  readonly id: string;
  readonly replacement: string | null;
}

export function Rotate({ id, replacement }: RotateProps) {
  const { caller } = useApp();
  const {
    value: tokens,
    failure,
    loading,
    reload,
  } = useLoaded(() => (replacement === null ? listTokens() : getBoth(id, replacement)));
  const now = useNow(REFRESH_MS);
  useEffect(() => {
    if (replacement === null) return undefined;
    let left = MAX_REFRESHES;
    const timer = setInterval(() => {
      if (document.hidden || left-- <= 0) return;
      reload();
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [replacement, reload]);

  const old = tokens?.find((token) => token.id === id && token.user_id === caller.user.id);
  const made = tokens?.find((token) => token.id === replacement);
  const state = old === undefined || made === undefined ? undefined : rotationState(old, made, now);
  const step = replacement === null ? 0 : state !== undefined && READY.includes(state) ? 2 : 1;
  return (
    <div class="narrow">
      <a class="back" href={LINKS.tokens}>
        <span aria-hidden="true">← </span>My tokens
      </a>
      <h1 tabIndex={-1}>{old === undefined ? 'Rotate a token' : `Rotate ${nameOf(old)}`}</h1>
      <p class="lead">
        Get a new secret without an interruption: both tokens work until the old one expires.
      </p>
      <ol class="steps">
        {STEPS.map((label, i) => (
          <li key={label} aria-current={i === step ? 'step' : undefined} class={i < step ? 'done' : ''}>
            {label}
            {i < step && <span class="unseen"> (done)</span>}
          </li>
        ))}
      </ol>
      <Problem failure={failure} onRetry={reload} />
      {tokens === undefined && loading && <Skeleton what="token" lines={1} />}
      {tokens !== undefined && old === undefined && (
        <Gone>This is not one of your tokens: it was revoked, or it belongs to someone else.</Gone>
      )}
      {old !== undefined && replacement === null && (
        <FirstStep old={old} candidate={findReplacement(old, tokens ?? [])} />
      )}
      {old !== undefined && replacement !== null && made === undefined && (
        <Gone>The new token was revoked in the meantime. The old one still works.</Gone>
      )}
      {old !== undefined && made !== undefined && state !== undefined && (
        <section class="panel">
          <p class={step === 2 ? 'notice good' : 'notice warn'} role="status">
            {advice(state, old, now)}
          </p>
          <div class="pair">
            <div class="card">
              <h2>Old token</h2>
              <TokenFacts token={old} now={now} />
            </div>
            <div class="card">
              <h2>New token</h2>
              <TokenFacts token={made} now={now} />
            </div>
          </div>
          <div class="buttons start">
            <button type="button" class="button" disabled={loading} onClick={reload}>
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
      )}
    </div>
  );
}

/** Without those that no longer exist. */
async function getBoth(id: string, replacement: string): Promise<Result<Token[]>> {
  const results = await Promise.all([getToken(id), getToken(replacement)]);
  const tokens: Token[] = [];
  for (const result of results) {
    if (result.ok) tokens.push(result.value);
    else if (!isGone(result.failure)) return result;
  }
  return { ok: true, value: tokens };
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

interface FirstStepProps {
  readonly old: Token;
  /** If the token was rotated before. */
  readonly candidate: Token | undefined;
}

function FirstStep({ old, candidate }: FirstStepProps) {
  const { caller } = useApp();
  const overlapId = useId();
  const [overlap, setOverlap] = useState(caller.rotation.overlap);
  const { created, drop, receive } = useSecret();
  const { busy, failure, run } = useCall();
  const expiresAt = replacementExpiry(old, currentTime(), caller.max_lifetime);

  const submit = (event: Event) => {
    event.preventDefault();
    if (!busy) void run(receive(rotateToken(old.id, overlap)));
  };
  if (created !== null) {
    const next = LINKS.rotate(old.id, created.id);
    const stored = () => {
      drop();
      // Replaces the history entry, because "back" must not lead to a form that would create a second
      // replacement.
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
        <Fact label="Scope">{scopeTitles(old.scopes, caller.scopes)}</Fact>
        <Fact label="Services">{serviceNames(old.services, caller.services)}</Fact>
        <TokenLimits token={old} />
        <Fact label="Expires">{expiresAt === null ? 'Never' : formatMoment(expiresAt, currentTime())}</Fact>
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
      <Problem failure={failure}>
        {failure?.kind === 'no_answer' &&
          'The server did not respond. Check your connection and reload this page: it says whether the token was rotated.'}
      </Problem>
      <div class="buttons start">
        <button type="submit" class="button main" disabled={busy}>
          {busy ? 'Creating…' : 'Create the replacement'}
        </button>
      </div>
    </form>
  );
}

/** The replacement gets the lifetime that the old token had. */
function replacementExpiry(like: Token, now: number, maxLifetime: number | null): number | null {
  const life =
    like.expires_at === null ? Infinity : Date.parse(like.expires_at) - Date.parse(like.created_at);
  const lasts = Math.min(life, maxLifetime === null ? Infinity : maxLifetime * 1000);
  return lasts === Infinity ? null : now + lasts;
}

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
