import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { Expiry, LastUse, LimitMarks, Moment } from './parts.js';
import type { Row } from './tokens.js';

interface ToolbarProps {
  readonly filter: string;
  readonly withOwner: boolean;
  readonly found: number;
  readonly total: number;
  readonly onFilter: (filter: string) => void;
}

export function Toolbar({ filter, withOwner, found, total, onFilter }: ToolbarProps) {
  const id = useId();
  return (
    <div class="toolbar" role="search" aria-label="Tokens">
      <div class="search">
        <label class="unseen" for={id}>
          Filter tokens
        </label>
        <input
          id={id}
          type="search"
          placeholder={`Filter by name, ${withOwner ? 'owner, ' : ''}scope, service…`}
          value={filter}
          spellcheck={false}
          autoComplete="off"
          onInput={({ currentTarget }) => onFilter(currentTarget.value)}
        />
      </div>
      <p class="count" role="status">
        {found === total ? `${total} ${total === 1 ? 'token' : 'tokens'}` : `${found} of ${total} tokens`}
      </p>
    </div>
  );
}

/** Each with its label, and with the words before the token's name for screen readers. */
const ACTIONS = {
  rotate: ['Rotate', 'Rotate'],
  limits: ['Limits', 'Limits of'],
  revoke: ['Revoke', 'Revoke'],
} as const;

export type Action = keyof typeof ACTIONS;

interface TokenTableProps {
  readonly caption: string;
  readonly rows: readonly Row[];
  readonly withOwner: boolean;
  readonly actionsOf: (row: Row) => readonly Action[];
  readonly onAction: (action: Action, row: Row) => void;
}

const COLUMNS: readonly { readonly label: string; readonly cell: (row: Row) => ComponentChildren }[] = [
  { label: 'Owner', cell: ({ owner }) => owner },
  { label: 'Scope', cell: ({ scope }) => scope },
  { label: 'Services', cell: ({ services }) => services },
  { label: 'Created', cell: ({ token }) => <Moment time={token.created_at} /> },
  { label: 'Last used', cell: ({ token }) => <LastUse token={token} /> },
  { label: 'Expires', cell: ({ token }) => <Expiry time={token.expires_at} /> },
];

/** Roles are explicit because browsers may drop those of a table with another layout. */
export function TokenTable({ caption, rows, withOwner, actionsOf, onAction }: TokenTableProps) {
  const columns = withOwner ? COLUMNS : COLUMNS.filter(({ label }) => label !== 'Owner');
  return (
    <table role="table" class="tokens">
      <caption class="unseen">{caption}</caption>
      <thead role="rowgroup">
        <tr role="row">
          {['Name', ...columns.map(({ label }) => label)].map((label) => (
            <th key={label} role="columnheader" scope="col">
              {label}
            </th>
          ))}
          <th role="columnheader" scope="col">
            <span class="unseen">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <tr role="row" key={row.token.id}>
            <th role="rowheader" scope="row">
              <span class="name">{row.name}</span>
              {row.namesakes > 1 && <span class="mark warn">{row.namesakes} with this name</span>}
              <LimitMarks token={row.token} />
              <span class="id" title="The token's id">
                {row.token.id}
              </span>
            </th>
            {columns.map(({ label, cell }) => (
              <td role="cell" key={label}>
                <span class="label">{label}</span>
                {cell(row)}
              </td>
            ))}
            <td role="cell" class="actions">
              {actionsOf(row).map((action) => (
                <button
                  key={action}
                  type="button"
                  class={action === 'revoke' ? 'button small bad' : 'button small'}
                  aria-label={`${ACTIONS[action][1]} ${fullName(row)}`}
                  onClick={() => onAction(action, row)}
                >
                  {ACTIONS[action][0]}
                </button>
              ))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** With the id where another token has the same name. */
function fullName({ name, namesakes, token }: Row): string {
  return namesakes > 1 ? `${name}, id ${token.id}` : name;
}
