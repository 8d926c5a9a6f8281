import { useEffect, useState } from 'preact/hooks';
import { type Failure, getToken, listTokens, type Result } from '../api.js';
import { useApp } from '../app-context.js';
import { useLoaded } from '../loading.js';
import { Problem } from '../parts/problem.js';
import { RotateReplacement } from '../parts/rotate-replacement.js';
import { RotateWatch } from '../parts/rotate-watch.js';
import { LINKS } from '../routes.js';
import { findReplacement } from '../rotation.js';
import type { Token } from '../types.js';
import { nameOf } from '../words.js';

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
