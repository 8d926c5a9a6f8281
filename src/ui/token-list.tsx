import { useMemo, useState } from 'preact/hooks';
import { LINKS } from './address.js';
import { listCustomerTokens, listPeople, listTokens, type Person, type Result, type Token } from './api.js';
import { focusHeading, useApp, useLoaded } from './app.js';
import { Empty, Problem, Title } from './parts.js';
import { DIALOGS } from './token-dialogs.js';
import { type Action, TokenTable, Toolbar } from './token-table.js';
import { type Row, toRows } from './tokens.js';

/** Rows shown at first, and added at a time. */
const PAGE = 50;

type Whose = 'own' | 'organisation';

const TITLES = { own: 'My tokens', organisation: 'Tokens of the organisation' } as const;

export function TokenList({ whose }: { readonly whose: Whose }) {
  const { customer, may } = useApp().caller;
  const own = whose === 'own';
  const mayList = own ? may.list_tokens : may.list_customer_tokens;
  const limit = may.revoke_customer_tokens ? '' : '. Your role may view them; a superuser can revoke them';
  const lead = own
    ? 'A token lets a script or a service call the API on your behalf.'
    : `Every token of ${customer.name || 'your organisation'}${limit}.`;
  return (
    <>
      <Title text={TITLES[whose]} lead={mayList && lead}>
        {own && (
          <a class="button main" href={LINKS.new}>
            Create token
          </a>
        )}
      </Title>
      {mayList ? <Tokens whose={whose} /> : <MayNotList own={own} />}
    </>
  );
}

function Tokens({ whose }: { readonly whose: Whose }) {
  const { caller, announce } = useApp();
  const { customer, may, services, scopes } = caller;
  const list = useLoaded(() => (whose === 'own' ? listTokens() : listCustomerTokens(customer.id)));
  // Without their names, owners are shown by their ids.
  const { value: people = [] } = useLoaded(whose === 'own' ? nobody : listPeople);
  const [filter, setFilter] = useState('');
  const [shown, setShown] = useState(PAGE);
  const [asked, setAsked] = useState<{ readonly action: Action; readonly id: string } | null>(null);
  const rows = useMemo(
    () => toRows(list.value ?? [], { people, scopes, services }),
    [list.value, people, scopes, services],
  ); // prettier-ignore
  const wanted = filter.trim().toLowerCase();
  const matching = rows.filter(({ haystack }) => haystack.includes(wanted));

  /** @param token undefined when it no longer exists */
  const settle = (id: string, token: Token | undefined, message: string, others: boolean) => {
    setAsked(null);
    if (others) list.reload();
    list.update((tokens) => tokens.flatMap((each) => (each.id === id ? (token ?? []) : each)));
    announce(message);
    if (token === undefined) focusHeading();
  };
  const isOwn = (token: Token) => token.user_id === caller.user.id;
  const actionsOf = ({ token }: Row): readonly Action[] => {
    if (!may.revoke_tokens || !(isOwn(token) || may.revoke_customer_tokens)) return [];
    return whose === 'own' && isOwn(token) ? ['rotate', 'limits', 'revoke'] : ['limits', 'revoke'];
  };
  const found = rows.find(({ token }) => token.id === asked?.id);
  const AskedDialog = DIALOGS[asked?.action ?? 'limits'];

  return (
    <>
      <Problem failure={list.failure} onRetry={list.reload} />
      {list.value === undefined && list.loading && <p role="status">Loading the tokens…</p>}
      {list.value !== undefined && rows.length === 0 && <NoTokens whose={whose} />}
      {rows.length > 0 && (
        <>
          <Toolbar
            filter={filter}
            withOwner={whose === 'organisation'}
            found={matching.length}
            total={rows.length}
            onFilter={(next) => {
              setFilter(next);
              setShown(PAGE);
            }}
          />
          {matching.length === 0 ? (
            <Empty title="No matching tokens">
              <p>None of the {rows.length} tokens matches the filter.</p>
              <button type="button" class="button" onClick={() => setFilter('')}>
                Show all
              </button>
            </Empty>
          ) : (
            <TokenTable
              caption={TITLES[whose]}
              rows={matching.slice(0, shown)}
              withOwner={whose === 'organisation'}
              actionsOf={actionsOf}
              onAction={(action, row) => setAsked({ action, id: row.token.id })}
            />
          )}
          {matching.length > shown && (
            <div class="more">
              <span class="quiet">
                {shown} of {matching.length} shown
              </span>
              <button
                type="button"
                class="button"
                onClick={() => {
                  setShown(shown + PAGE);
                  announce(`${Math.min(shown + PAGE, matching.length)} of ${matching.length} tokens are shown.`);
                }}
              >
                Show more
              </button>
            </div>
          )}
        </>
      )}
      {found !== undefined && (
        <AskedDialog
          token={found.token}
          owner={isOwn(found.token) ? undefined : found.owner}
          replacement={rows.find(({ token }) => token.predecessor_id === found.token.id)?.token}
          onClose={() => setAsked(null)}
          onReload={list.reload}
          onDone={(...result) => settle(found.token.id, ...result)}
        />
      )}
    </>
  ); // prettier-ignore
}

async function nobody(): Promise<Result<Person[]>> {
  return { ok: true, value: [] };
}

function NoTokens({ whose }: { readonly whose: Whose }) {
  if (whose === 'organisation')
    return (
      <Empty title="No tokens yet">
        <p>Tokens that people in your organisation create appear here.</p>
      </Empty>
    );
  return (
    <Empty title="No tokens yet">
      <p>Create one for each script or service, with only the permissions that it needs. You can revoke each one separately.</p>
      <a class="button main" href={LINKS.new}>
        Create your first token
      </a>
    </Empty>
  ); // prettier-ignore
}

function MayNotList({ own }: { readonly own: boolean }) {
  const { role } = useApp().caller.user;
  return (
    <Empty title="Your role cannot list tokens here">
      <p>
        You are logged in with the role <strong>{role}</strong>. {own ? 'You can still create a token. ' : ''}
        To look one up or revoke it, ask a superuser of your organisation. A token can also revoke itself, with{' '}
        <code>DELETE /tokens/self</code>.
      </p>
    </Empty>
  ); // prettier-ignore
}
