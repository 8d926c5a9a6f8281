import { useId } from 'preact/hooks';
import type { Filter, Show, Sort, SortKey } from '../token-order.js';

interface ToolbarProps {
  readonly filter: Filter;
  readonly sort: Sort;
  readonly withOwner: boolean;
  readonly found: number;
  readonly total: number;
  readonly onFilter: (filter: Filter) => void;
  readonly onSort: (sort: Sort) => void;
}

const SHOWN: readonly (readonly [Show, string])[] = [
  ['all', 'All'],
  ['active', 'Active'],
  ['soon', 'Expiring soon'],
  ['expired', 'Expired'],
  ['unused', 'Never used'],
];

const ORDERS: readonly (readonly [SortKey, boolean, string])[] = [
  ['created', true, 'Newest first'],
  ['created', false, 'Oldest first'],
  ['used', true, 'Last used first'],
  ['used', false, 'Longest unused first'],
  ['expires', false, 'Expiring first'],
  ['expires', true, 'Expiring last'],
  ['name', false, 'Name, A to Z'],
  ['name', true, 'Name, Z to A'],
  ['owner', false, 'Owner, A to Z'],
  ['owner', true, 'Owner, Z to A'],
];

/** Filters a list. It also offers the sort order where there are no column headings to press. */
export function Toolbar({ filter, sort, withOwner, found, total, onFilter, onSort }: ToolbarProps) {
  const id = useId();
  const orders = ORDERS.filter(([key]) => withOwner || key !== 'owner');
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
      <label class="choice">
        <span>Show</span>
        <select
          value={filter.show}
          onChange={({ currentTarget }) => onFilter({ ...filter, show: currentTarget.value as Show })}
        >
          {SHOWN.map(([show, label]) => (
            <option key={show} value={show}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <label class="choice order">
        <span>Order</span>
        <select
          value={String(orders.findIndex(([key, descending]) => key === sort.key && descending === sort.descending))}
          onChange={({ currentTarget }) => {
            const [key, descending] = orders[Number(currentTarget.value)] ?? ['created', true];
            onSort({ key, descending });
          }}
        >
          {orders.map(([, , label], i) => (
            <option key={label} value={String(i)}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <p class="count" role="status">
        {found === total ? `${total} ${total === 1 ? 'token' : 'tokens'}` : `${found} of ${total} tokens`}
      </p>
    </div>
  ); // prettier-ignore
}
