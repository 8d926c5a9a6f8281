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
  readonly now: number;
  readonly warnBefore: number;
  readonly actionsOf: (row: Row) => readonly Action[];
  readonly onAction: (action: Action, row: Row) => void;
}

/** Whether the first press sorts in descending order. */
const FIRST_DESCENDING: Record<SortKey, boolean> = {
  name: false, owner: false, created: true, used: true, expires: false,
}; // prettier-ignore

/** Roles are explicit because browsers may drop those of a table with another layout. */
export function TokenTable(props: TokenTableProps) {
  const { sort, onSort, withOwner, now } = props;
  const heading = (key: SortKey, label: string) => (
    <SortHeading sortKey={key} label={label} sort={sort} onSort={onSort} />
  );
  return (
    <table role="table" class="tokens">
      <caption class="unseen">{props.caption}</caption>
      <thead role="rowgroup">
        <tr role="row">
          {heading('name', 'Name')}
          {withOwner && heading('owner', 'Owner')}
          <th role="columnheader" scope="col">
            Scope
          </th>
          <th role="columnheader" scope="col">
            Services
          </th>
          {heading('created', 'Created')}
          {heading('used', 'Last used')}
          {heading('expires', 'Expires')}
          <th role="columnheader" scope="col">
            <span class="unseen">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        {props.rows.map((row) => (
          <tr role="row" key={row.token.id}>
            <th role="rowheader" scope="row">
              <span class="name">{row.name}</span>
              {row.namesakes > 1 && <span class="mark warn">{row.namesakes} with this name</span>}
              <LimitMarks token={row.token} />
              <span class="id" title="The token's id">
                {row.token.id}
              </span>
            </th>
            {withOwner && <Cell label="Owner">{row.owner}</Cell>}
            <Cell label="Scope">{row.scope}</Cell>
            <Cell label="Services">{row.services}</Cell>
            <Cell label="Created">
              <Moment time={row.token.created_at} now={now} />
            </Cell>
            <Cell label="Last used">
              <LastUse token={row.token} now={now} />
            </Cell>
            <Cell label="Expires">
              <Expiry time={row.token.expires_at} warnBefore={props.warnBefore} now={now} />
            </Cell>
            <td role="cell" class="actions">
              {props.actionsOf(row).map((action) => (
                <button
                  key={action}
                  type="button"
                  class={action === 'revoke' ? 'button small bad' : 'button small'}
                  aria-label={`${ACTIONS[action][1]} ${fullName(row)}`}
                  onClick={() => props.onAction(action, row)}
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

function Cell({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    <td role="cell">
      <span class="label">{label}</span>
      {children}
    </td>
  );
}

interface SortHeadingProps {
  readonly sortKey: SortKey;
  readonly label: string;
  readonly sort: Sort;
  readonly onSort: (sort: Sort) => void;
}

function SortHeading({ sortKey, label, sort, onSort }: SortHeadingProps) {
  const here = sort.key === sortKey;
  const press = () =>
    onSort({ key: sortKey, descending: here ? !sort.descending : FIRST_DESCENDING[sortKey] });
  return (
    <th
      role="columnheader"
      scope="col"
      aria-sort={here ? (sort.descending ? 'descending' : 'ascending') : undefined}
    >
      <button type="button" class="sort" onClick={press}>
        {label}
        <span aria-hidden="true" class="arrow">
          {here ? (sort.descending ? '↓' : '↑') : ''}
        </span>
      </button>
    </th>
  );
}
