import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { currentTime, type Failure, type Token } from './api.js';
import { useApp } from './app.js';
import { Form } from './form.js';
import {
  describeClient,
  expiryState,
  explainFailure,
  formatDistance,
  formatMoment,
  formatUtc,
} from './words.js';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** The browser keeps the focus inside and restores it afterwards. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => {
      dialog.current = null;
      shown?.close();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      // Browsers close it at a repeated Escape, even while an answer is awaited.
      onClose={() => dialog.current?.showModal()}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

interface DialogFormProps extends DialogProps {
  readonly busy?: boolean;
  readonly failure?: Failure | undefined;
  /** Replaces the explanation of the failure. */
  readonly explanation?: string | false;
  /** Labels of the buttons that close the dialog and send the form. */
  readonly cancel: string;
  readonly submit: string;
  readonly isDangerous?: boolean;
  readonly more?: ComponentChildren;
  readonly onSubmit: (form: HTMLFormElement) => void;
}

/** It stays open while busy. */
export function DialogForm(props: DialogFormProps) {
  const { title, busy = false, failure, onClose, onSubmit } = props;
  return (
    <Dialog title={title} onClose={() => busy || onClose()}>
      <Form busy={busy} onSubmit={onSubmit}>
        {props.children}
        <Problem failure={failure}>{failure && props.explanation}</Problem>
        <div class="buttons">
          <button type="button" class="button" disabled={busy} onClick={onClose}>
            {props.cancel}
          </button>
          {props.more}
          <button type="submit" class={props.isDangerous ? 'button danger' : 'button main'} disabled={busy}>
            {busy ? 'One moment…' : props.submit}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

interface ProblemProps {
  readonly failure?: Failure | undefined;
  /** Replaces the explanation. */
  readonly children?: ComponentChildren;
  readonly onRetry?: () => void;
}

/** Nothing is shown when the session has ended: the log-in then says so. */
export function Problem({ failure, children, onRetry }: ProblemProps) {
  const text = children || (failure !== undefined && failure.kind !== 'ended' && explainFailure(failure));
  if (!text) return null;
  return (
    <div class="notice bad" role="alert">
      <p>{text}</p>
      {onRetry !== undefined && (
        <button type="button" class="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Moment({ time }: { readonly time: string }) {
  const now = currentTime();
  const at = Date.parse(time);
  return (
    <time dateTime={time} title={`${formatUtc(at)} (${formatDistance(at, now)})`}>
      {formatMoment(at, now)}
    </time>
  );
}

/** The mark is text, not only a colour. */
export function Expiry({ time }: { readonly time: string | null }) {
  const { caller } = useApp();
  const now = currentTime();
  const state = expiryState(time, caller.warn_before * 1000, now);
  if (time === null) return <span class="quiet">Never</span>;
  return (
    <span class="stack">
      {state === 'soon' && <span class="mark warn">Expires {formatDistance(Date.parse(time), now)}</span>}
      {state === 'past' && <span class="mark bad">Expired</span>}
      <Moment time={time} />
    </span>
  );
}

export function LastUse({ token }: { readonly token: Token }) {
  if (token.last_seen_at === null) return <span class="quiet">Not used yet</span>;
  return (
    <span class="stack">
      <Moment time={token.last_seen_at} />
      <span class="quiet" title={token.user_agent ?? undefined}>
        {token.ip} · {describeClient(token.user_agent)}
      </span>
    </span>
  );
}

interface TitleProps {
  readonly text: string;
  readonly lead?: string | false;
  readonly children?: ComponentChildren;
}

export function Title({ text, lead = false, children }: TitleProps) {
  return (
    <div class="title">
      <div>
        <h1 tabIndex={-1}>{text}</h1>
        {lead !== false && <p class="lead">{lead}</p>}
      </div>
      {children}
    </div>
  );
}

export function Empty({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

type Fact = readonly [label: string, value: ComponentChildren];

interface FactsProps {
  /** Those without a value are left out. */
  readonly facts: readonly Fact[];
  readonly across?: boolean;
}

export function Facts({ facts, across = false }: FactsProps) {
  const shown = facts.filter(([, value]) => value !== undefined);
  return (
    <dl class={across ? 'facts across' : 'facts'}>
      {shown.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function limitsOf({ rate, addresses }: Token): Fact[] {
  return [
    ['Rate', rate],
    ['Addresses', addresses?.join(', ')],
  ];
}

export function LimitMarks({ token: { suspended, rate, addresses } }: { readonly token: Token }) {
  return (
    <>
      {suspended === true && <span class="mark bad">Suspended</span>}
      {rate !== undefined && <span class="mark">{rate}</span>}
      {addresses !== undefined && (
        <span class="mark" title={addresses.join(', ')}>
          {addresses.length === 1 ? addresses[0] : `${addresses.length} addresses`}
        </span>
      )}
    </>
  );
}

interface TokenFactsProps {
  readonly token: Token;
  /** Undefined for the caller's own token. */
  readonly owner?: string | undefined;
}

export function TokenFacts({ token, owner }: TokenFactsProps) {
  return (
    <Facts
      facts={[
        ['Owner', owner],
        ['Id', <code>{token.id}</code>],
        ...limitsOf(token),
        ['Created', <Moment time={token.created_at} />],
        ['Last used', <LastUse token={token} />],
      ]}
    />
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M16 7a5 5 0 0 0-2.4 9.4L12.500 24h7l-1.1-7.600A5 5 0 0 0 16 7z" />
    </svg>
  );
}
