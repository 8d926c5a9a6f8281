import { useState } from 'preact/hooks';
import { hasProviders } from './address.js';
import { endOtherSessions, endSession, type Failure, listSessions, type Session } from './api.js';
import { focusHeading, useApp, useLoaded, useNow } from './app.js';
import { Dialog, Moment, Problem } from './parts.js';
import { describeClient } from './words.js';

/** Lists where the caller is logged in, and lets them end other sessions. */
export function Sessions() {
  const { announce } = useApp();
  const list = useLoaded(listSessions);
  const now = useNow();
  const [asking, setAsking] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const others = list.value?.filter(({ current }) => !current) ?? [];

  const settle = (message: string, gone: (session: Session) => boolean) => {
    list.update((sessions) => sessions.filter((session) => !gone(session)));
    announce(message);
    focusHeading();
  };
  const end = async (session: Session) => {
    setFailure(undefined);
    const result = await endSession(session.id);
    const isGone = !result.ok && result.failure.kind === 'refused' && result.failure.status === 404;
    if (result.ok || isGone) {
      const client = describeClient(session.user_agent);
      settle(`The session of ${client} ${isGone ? 'had already ended' : 'was ended'}.`, ({ id }) => id === session.id);
    } else setFailure(result.failure);
  }; // prettier-ignore
  const endOthers = async () => {
    setBusy(true);
    setFailure(undefined);
    const result = await endOtherSessions();
    setBusy(false);
    setAsking(false);
    if (result.ok) settle('All other sessions were ended.', ({ current }) => !current);
    else setFailure(result.failure);
  };

  return (
    <>
      <div class="title">
        <div>
          <h1 tabIndex={-1}>Sessions</h1>
          <p class="lead">Where you are logged in. If you do not recognize a session, end it and tell your administrator.</p>
        </div>
        {others.length > 0 && (
          <button type="button" class="button" onClick={() => setAsking(true)}>
            End all others
          </button>
        )}
      </div>
      {failure !== undefined && failure.kind !== 'ended' && <Problem failure={failure} />}
      {list.failure !== undefined && list.failure.kind !== 'ended' && (
        <Problem failure={list.failure} onRetry={list.reload} />
      )}
      {list.value === undefined && list.loading && (
        <div class="skeleton" role="status">
          <span class="unseen">Loading the sessions…</span>
          <div aria-hidden="true" />
          <div aria-hidden="true" />
        </div>
      )}
      {list.value !== undefined && (
        <ul class="sessions">
          {list.value.map((session) => (
            <SessionCard key={session.id} session={session} now={now} onEnd={() => void end(session)} />
          ))}
        </ul>
      )}
      {asking && (
        <Dialog title="End all other sessions?" onClose={() => setAsking(false)}>
          <p>
            {others.length === 1 ? 'One other session ends' : `${others.length} other sessions end`} at once, and
            has to log in again. This one stays.
          </p>
          <div class="buttons">
            <button type="button" class="button" disabled={busy} onClick={() => setAsking(false)}>
              Keep them
            </button>
            <button type="button" class="button danger" disabled={busy} onClick={() => void endOthers()}>
              End all others
            </button>
          </div>
        </Dialog>
      )}
    </>
  ); // prettier-ignore
}

interface SessionCardProps {
  readonly session: Session;
  readonly now: number;
  readonly onEnd: () => void;
}

function SessionCard({ session, now, onEnd }: SessionCardProps) {
  const client = describeClient(session.user_agent);
  const { provider } = useApp().caller;
  const titleOf = (name: string) => (name === provider?.name ? provider.title : name);
  return (
    <li>
      <div>
        <h2 title={session.user_agent ?? undefined}>
          {client} {session.current && <span class="mark good">This session</span>}
        </h2>
        <dl class="facts across">
          <div>
            <dt>Address</dt>
            <dd>{session.ip}</dd>
          </div>
          {(session.provider !== undefined || hasProviders()) && (
            <div>
              <dt>Logged in by</dt>
              <dd>{session.provider === undefined ? 'Password' : titleOf(session.provider)}</dd>
            </div>
          )}
          <div>
            <dt>Logged in</dt>
            <dd>
              <Moment time={session.created_at} now={now} />
            </dd>
          </div>
          <div>
            <dt>Last active</dt>
            <dd>
              <Moment time={session.last_seen_at} now={now} />
            </dd>
          </div>
          <div>
            <dt>Ends by</dt>
            <dd>
              <Moment time={session.ends_at} now={now} />
            </dd>
          </div>
        </dl>
      </div>
      {!session.current && (
        <button
          type="button"
          class="button small bad"
          aria-label={`End the session of ${client} from ${session.ip}`}
          onClick={onEnd}
        >
          End
        </button>
      )}
    </li>
  );
}
