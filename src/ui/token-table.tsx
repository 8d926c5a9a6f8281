import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { Select } from './form.js';
import { Expiry, LastUse, LimitMarks, Moment } from './parts.js';
import type { Filter, Row, Show, Sort, SortKey } from './tokens.js';

interface ToolbarProps {
  readonly filter: Filter;
  readonly withOwner: boolean;
  readonly found: number;
  readonly total: number;
  readonly onFilter: (filter: Filter) => void;
}

const SHOWN: readonly (readonly [Show, string])[] = [
  ['all', 'All'],
  ['active', 'Active'],
  ['soon', 'Expiring soon'],
  ['expired', 'Expired'],
  ['unused', 'Never used'],
];

export function Toolbar({ filter, withOwner, found, total, onFilter }: ToolbarProps) {
  const id = useId();
  return (
    <div class="toolbar" role="search" aria-label="Tokens">
      <div class="search">
        <label class="unseen" for={`${id}-text`}>
          Filter tokens
        </label>
        <input
          id={`${id}-text`}
          type="search"
          placeholder={`Filter by name, ${withOwner ? 'owner, ' : ''}scope, service…`}
          value={filter.text}
          spellcheck={false}
          autoComplete="off"
          onInput={({ currentTarget }) => onFilter({ ...filter, text: currentTarget.value })}
        />
      </div>
      <Select
        label="Show"
        class="choice"
        value={filter.show}
        options={SHOWN}
        onChange={(show) => onFilter({ ...filter, show })}
      />
      <p class="count" role="status">
        {found === total ? `${total} ${total === 1 ? 'token' : 'tokens'}` : `${found} of ${total} tokens`}
      </p>
    </div>
  ); // prettier-ignore
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
  readonly sort: Sort;
  readonly onSort: (sort: Sort) => void;
  readonly withOwner: boolean;
  readonly actionsOf: (row: Row) => readonly Action[];
  readonly onAction: (action: Action, row: Row) => void;
}

interface Column {
  readonly label: string;
  readonly sortKey?: SortKey;
  readonly cell: (row: Row) => ComponentChildren;
}

const COLUMNS: readonly Column[] = [
  { label: 'Owner', sortKey: 'owner', cell: ({ owner }) => owner },
  { label: 'Scope', cell: ({ scope }) => scope },
  { label: 'Services', cell: ({ services }) => services },
  { label: 'Created', sortKey: 'created', cell: ({ token }) => <Moment time={token.created_at} /> },
  { label: 'Last used', sortKey: 'used', cell: ({ token }) => <LastUse token={token} /> },
  { label: 'Expires', sortKey: 'expires', cell: ({ token }) => <Expiry time={token.expires_at} /> },
];

/** Roles are explicit because browsers may drop those of a table with another layout. */
export function TokenTable({ caption, rows, sort, onSort, withOwner, actionsOf, onAction }: TokenTableProps) {
  const columns = withOwner ? COLUMNS : COLUMNS.filter(({ sortKey }) => sortKey !== 'owner');
  return (
    <table role="table" class="tokens">
      <caption class="unseen">{caption}</caption>
      <thead role="rowgroup">
        <tr role="row">
          <Heading label="Name" sortKey="name" sort={sort} onSort={onSort} />
          {columns.map(({ label, sortKey }) => (
            <Heading key={label} label={label} sortKey={sortKey} sort={sort} onSort={onSort} />
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

interface HeadingProps extends Pick<TokenTableProps, 'sort' | 'onSort'> {
  readonly label: string;
  readonly sortKey: SortKey | undefined;
}

function Heading({ label, sortKey, sort, onSort }: HeadingProps) {
  const here = sort.key === sortKey;
  const isNewestFirst = sortKey === 'created' || sortKey === 'used';
  return (
    <th
      role="columnheader"
      scope="col"
      aria-sort={here ? (sort.descending ? 'descending' : 'ascending') : undefined}
    >
      {sortKey === undefined ? (
        label
      ) : (
        <button
          type="button"
          class="sort"
          onClick={() => onSort({ key: sortKey, descending: here ? !sort.descending : isNewestFirst })}
        >
          {label}
          <span aria-hidden="true" class="arrow">
            {here ? (sort.descending ? '↓' : '↑') : ''}
          </span>
        </button>
      )}
    </th>
  );
}
