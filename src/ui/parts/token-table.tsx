import type { ComponentChildren } from 'preact';
import { LINKS } from '../routes.js';
import type { Row, Sort, SortKey } from '../token-order.js';
import { LastUse } from './last-use.js';
import { Expiry, Moment } from './moment.js';
import { LimitMarks } from './token-limits.js';

interface TokenTableProps {
  readonly caption: string;
  readonly rows: readonly Row[];
  readonly sort: Sort;
  readonly onSort: (sort: Sort) => void;
  readonly withOwner: boolean;
  readonly now: number;
  /** Milliseconds before its expiry from which on a token is marked. */
  readonly warnBefore: number;
  readonly mayRotate: (row: Row) => boolean;
  readonly mayRevoke: (row: Row) => boolean;
  readonly onLimits: (row: Row) => void;
  readonly onRevoke: (row: Row) => void;
}

/**
 * Whether the first press sorts a column in descending order: names start from A, times from the
 * latest.
 */
const FIRST_DESCENDING: Record<SortKey, boolean> = {
  name: false, owner: false, created: true, used: true, expires: false,
}; // prettier-ignore

/**
 * Tokens as a table; on a narrow screen each row is a card.
 *
 * Roles are explicit because browsers may drop them when CSS lays out a table as cards.
 */
export function TokenTable(props: TokenTableProps) {
  const {
    caption,
    rows,
    sort,
    onSort,
    withOwner,
    now,
    warnBefore,
    mayRotate,
    mayRevoke,
    onLimits,
    onRevoke,
  } = props;
  const heading = (key: SortKey, label: string) => (
    <SortHeading sortKey={key} label={label} sort={sort} onSort={onSort} />
  );
  return (
    <table role="table" class={withOwner ? 'tokens with-owner' : 'tokens'}>
      <caption class="unseen">{caption}</caption>
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
              <Expiry time={row.token.expires_at} warnBefore={warnBefore} now={now} />
            </Cell>
            <td role="cell" class="actions">
              {mayRotate(row) && (
                <a
                  class="button small"
                  href={LINKS.rotate(row.token.id)}
                  aria-label={`Rotate ${fullName(row)}`}
                >
                  Rotate
                </a>
              )}
              {mayRevoke(row) && (
                <button
                  type="button"
                  class="button small"
                  aria-label={`Limits of ${fullName(row)}`}
                  onClick={() => onLimits(row)}
                >
                  Limits
                </button>
              )}
              {mayRevoke(row) && (
                <button
                  type="button"
                  class="button small bad"
                  aria-label={`Revoke ${fullName(row)}`}
                  onClick={() => onRevoke(row)}
                >
                  Revoke
                </button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The name of a row, with the id where another token has the same name. */
function fullName({ name, namesakes, token }: Row): string {
  return namesakes > 1 ? `${name}, id ${token.id}` : name;
}

function Cell({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    <td role="cell">
      <span class="label">{label}</span>
      <span class="value">{children}</span>
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
      class={`by-${sortKey}`}
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
