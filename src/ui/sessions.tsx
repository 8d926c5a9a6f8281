import { useState } from 'preact/hooks';
import { hasProviders } from './address.js';
import { endOtherSessions, endSession, isGone, listSessions, type Session } from './api.js';
import { focusHeading, useApp, useCall, useLoaded } from './app.js';
import { DialogForm, Facts, Moment, Problem, Title } from './parts.js';
import { describeClient } from './words.js';

export function Sessions() {
  const { announce } = useApp();
  const list = useLoaded(listSessions);
  const [asking, setAsking] = useState(false);
  const { busy, failure, run } = useCall();
  const others = list.value?.filter(({ current }) => !current) ?? [];

  const settle = (message: string, gone: (session: Session) => boolean) => {
    list.update((sessions) => sessions.filter((session) => !gone(session)));
    announce(message);
    focusHeading();
  };
  const end = async (session: Session) => {
    const result = await run(endSession(session.id));
    if (!result.ok && !isGone(result.failure)) return;
    const ended = result.ok ? 'was ended' : 'had already ended';
    settle(`The session of ${describeClient(session.user_agent)} ${ended}.`, ({ id }) => id === session.id);
  };
  const endOthers = async () => {
    const result = await run(endOtherSessions());
    setAsking(false);
    if (result.ok) settle('All other sessions were ended.', ({ current }) => !current);
  };

  return (
    <>
      <Title
        text="Sessions"
        lead="Where you are logged in. If you do not recognize a session, end it and tell your administrator."
      >
        {others.length > 0 && (
          <button type="button" class="button" onClick={() => setAsking(true)}>
            End all others
          </button>
        )}
      </Title>
      <Problem failure={failure !== undefined && isGone(failure) ? undefined : failure} />
      <Problem failure={list.failure} onRetry={list.reload} />
      {list.value === undefined && list.loading && <p role="status">Loading the sessions…</p>}
      {list.value !== undefined && (
        <ul class="sessions">
          {list.value.map((session) => (
            <SessionCard key={session.id} session={session} onEnd={() => void end(session)} />
          ))}
        </ul>
      )}
      {asking && (
        <DialogForm
          title="End all other sessions?"
          busy={busy}
          cancel="Keep them"
          submit="End all others"
          isDangerous
          onClose={() => setAsking(false)}
          onSubmit={() => void endOthers()}
        >
          <p>
            {others.length === 1 ? 'One other session ends' : `${others.length} other sessions end`} at once, and
            has to log in again. This one stays.
          </p>
        </DialogForm>
      )}
    </>
  ); // prettier-ignore
}

interface SessionCardProps {
  readonly session: Session;
  readonly onEnd: () => void;
}

function SessionCard({ session, onEnd }: SessionCardProps) {
  const client = describeClient(session.user_agent);
  const { provider } = useApp().caller;
  const byPassword = hasProviders() ? 'Password' : undefined;
  const titleOf = (name: string) => (name === provider?.name ? provider.title : name);
  return (
    <li>
      <div>
        <h2 title={session.user_agent ?? undefined}>
          {client} {session.current && <span class="mark good">This session</span>}
        </h2>
        <Facts
          across
          facts={[
            ['Address', session.ip],
            ['Logged in by', session.provider === undefined ? byPassword : titleOf(session.provider)],
            ['Logged in', <Moment time={session.created_at} />],
            ['Last active', <Moment time={session.last_seen_at} />],
            ['Ends by', <Moment time={session.ends_at} />],
          ]}
        />
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
