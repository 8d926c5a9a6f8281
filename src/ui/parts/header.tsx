import { useState } from 'preact/hooks';
import { useApp } from '../app-context.js';
import { LINKS, type Route } from '../routes.js';
import { Logo } from './logo.js';

interface HeaderProps {
  readonly view: Route['view'];
  readonly onLeave: () => Promise<void>;
}

/** The page header: the current view, the user, and the log-out button. */
export function Header({ view, onLeave }: HeaderProps) {
  const { caller } = useApp();
  const [leaving, setLeaving] = useState(false);
  const link = (to: 'tokens' | 'organisation' | 'sessions', label: string) => {
    const here = view === to || (to === 'tokens' && (view === 'new' || view === 'rotate'));
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
