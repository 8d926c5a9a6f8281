// src/ui: the web page, built into `dist/ui`.
// May import types of responses only.
// Nothing else may import it.

import { type JSX, render } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { LINKS, logoutLink, mayLeave, readArrival, type Route, useRoute } from './address.js';
import { type Caller, type Failure, getCaller, logOut, onSessionEnded } from './api.js';
import { AppContext, onReturn, useApp, useSessionEnd } from './app.js';
import { LogIn, type LogInReason } from './log-in.js';
import { NewToken } from './new-token.js';
import { Logo, Problem } from './parts.js';
import { Sessions } from './sessions.js';
import { TokenList } from './token-list.js';
import { explainLoginFailure } from './words.js';

type Who =
  | { readonly is: 'unknown'; readonly failure?: Failure }
  | { readonly is: 'nobody'; readonly reason: LogInReason }
  | {
      readonly is: 'caller';
      readonly caller: Caller;
      /** Of a login at a provider. */
      readonly failure?: string | null;
    };

function Page() {
  const [who, setWho] = useState<Who>({ is: 'unknown' });
  const [arrival] = useState(readArrival);
  /** Shows the page of a logged-in user, or goes to where that user came from. */
  const enter = useCallback(
    (caller: Caller, goesOn: boolean, failure: string | null = null) => {
      if (goesOn && arrival.returnTo !== undefined) {
        location.replace(arrival.returnTo);
        return;
      }
      onSessionEnded(() => setWho({ is: 'nobody', reason: 'ended' }));
      setWho({ is: 'caller', caller, failure });
    },
    [arrival],
  );
  const find = useCallback(
    async (reason: LogInReason) => {
      onSessionEnded(() => setWho({ is: 'nobody', reason }));
      const result = await getCaller();
      const isFirst = reason === 'first';
      if (result.ok) enter(result.value, !isFirst || arrival.goesOn, isFirst ? arrival.failure : null);
      else if (result.failure.kind !== 'ended') setWho({ is: 'unknown', failure: result.failure });
    },
    [arrival, enter],
  );
  useEffect(() => void find('first'), [find]);
  const reason = who.is === 'nobody' ? who.reason : null;
  /** Follows a login in another tab. */
  const follow = useCallback(() => {
    if (reason === null) return;
    onSessionEnded(() => setWho({ is: 'nobody', reason }));
    void getCaller().then((result) => result.ok && enter(result.value, true));
  }, [reason, enter]);
  // A page restored from the back/forward cache may belong to an ended session.
  useEffect(() => {
    const restored = (event: PageTransitionEvent) => {
      if (event.persisted) location.reload();
    };
    addEventListener('pageshow', restored);
    return () => removeEventListener('pageshow', restored);
  }, []);
  const end = useCallback(() => setWho({ is: 'nobody', reason: 'ended' }), []);
  const change = useCallback((caller: Caller) => setWho({ is: 'caller', caller }), []);
  const refresh = useCallback(
    () => void getCaller().then((result) => result.ok && change(result.value)),
    [change],
  );
  useSessionEnd(who.is === 'caller' ? who.caller : null, end, change);
  useEffect(() => (reason === null ? undefined : onReturn(follow)), [reason, follow]);
  const leave = async () => {
    const result = await logOut();
    const left = result.ok || result.failure.kind === 'ended';
    const provider = who.is === 'caller' ? who.caller.provider : undefined;
    const next = result.ok ? result.location : provider && logoutLink(provider.name);
    if (left && next != null) location.assign(next);
    else if (left) setWho({ is: 'nobody', reason: 'left' });
    return left;
  };
  return (
    <>
      {who.is === 'unknown' && who.failure === undefined && <div aria-busy="true" />}
      {who.is === 'unknown' && who.failure !== undefined && (
        <main class="alone">
          <h1>Latchkey</h1>
          <Problem failure={who.failure} onRetry={() => void find('first')} />
        </main>
      )}
      {who.is === 'nobody' && (
        <LogIn reason={who.reason} arrival={arrival} onDone={() => void find('no_cookie')} />
      )}
      {who.is === 'caller' && (
        <Inside
          key={who.caller.user.id}
          caller={who.caller}
          loginFailure={who.failure ?? null}
          onRefresh={refresh}
          onLeave={leave}
        />
      )}
    </>
  );
}

interface InsideProps {
  readonly caller: Caller;
  readonly loginFailure: string | null;
  readonly onRefresh: () => void;
  /** Resolves to false when the server did not confirm it. */
  readonly onLeave: () => Promise<boolean>;
}

/** It owns its announcements, so the next user does not see them. */
function Inside({ caller, loginFailure, onRefresh, onLeave }: InsideProps) {
  const route = useRoute();
  const View = VIEWS[route];
  const [message, setMessage] = useState({ text: '', count: 0 });
  const announce = useCallback((text: string) => setMessage(({ count }) => ({ text, count: count + 1 })), []);
  const main = useRef<HTMLElement>(null);
  const leave = async () => {
    if (mayLeave() && !(await onLeave()))
      announce('You are still logged in: the server did not confirm the sign-out. Try again.');
  };
  const app = { caller, refresh: onRefresh, announce };
  const [arrivedAt] = useState(route);
  // As after following a normal link, the new view is read from its top.
  useEffect(() => {
    const heading = main.current?.querySelector('h1');
    document.title = `${heading?.textContent ?? 'Tokens'} · Latchkey`;
    heading?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [route]);
  return (
    <AppContext.Provider value={app}>
      <button type="button" class="skip" onClick={() => main.current?.querySelector('h1')?.focus()}>
        Skip to the content
      </button>
      <Header view={route} onLeave={leave} />
      <main ref={main} key={route}>
        {loginFailure !== null && route === arrivedAt && (
          <Problem>{explainLoginFailure(loginFailure)}</Problem>
        )}
        <View />
      </main>
      <Announcement text={message.text} count={message.count} />
    </AppContext.Provider>
  );
}

const VIEWS: Readonly<Record<Route, () => JSX.Element>> = {
  new: NewToken,
  sessions: Sessions,
  organisation: () => <TokenList whose="organisation" />,
  tokens: () => <TokenList whose="own" />,
};

interface HeaderProps {
  readonly view: Route;
  readonly onLeave: () => Promise<void>;
}

function Header({ view, onLeave }: HeaderProps) {
  const { caller } = useApp();
  const [leaving, setLeaving] = useState(false);
  const link = (to: 'tokens' | 'organisation' | 'sessions', label: string) => {
    const here = view === to || (to === 'tokens' && view === 'new');
    return (
      <a href={LINKS[to]} aria-current={here ? 'page' : undefined}>
        {label}
      </a>
    );
  };
  const leave = async () => {
    setLeaving(true);
    await onLeave();
    setLeaving(false);
  };
  return (
    <header>
      <div class="bar">
        <span class="brand">
          <Logo />
          <span>{caller.customer.name || 'Latchkey'}</span>
        </span>
        <nav aria-label="Main">
          {link('tokens', 'My tokens')}
          {caller.may.list_customer_tokens && link('organisation', 'Organisation')}
          {link('sessions', 'Sessions')}
        </nav>
        <div class="who">
          <span class="person">
            <span title={caller.user.login}>{caller.user.name || caller.user.login}</span>
            <span class="quiet">{caller.user.role}</span>
          </span>
          <button type="button" class="button" disabled={leaving} onClick={() => void leave()}>
            Sign out
          </button>
        </div>
      </div>
    </header>
  );
}

const SHOWN_MS = 8_000;

/** @param count distinguishes equal messages */
function Announcement({ text, count }: { readonly text: string; readonly count: number }) {
  const [shown, setShown] = useState('');
  useEffect(() => {
    if (count === 0) return undefined;
    setShown(text);
    const timer = setTimeout(() => setShown(''), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [text, count]);
  return (
    <div class="announcement" role="status" aria-live="polite">
      {shown !== '' && <p key={count}>{shown}</p>}
    </div>
  );
}

const root = document.getElementById('page');
if (root !== null) render(<Page />, root);
