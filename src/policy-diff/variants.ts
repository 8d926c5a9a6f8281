import { segmentAt } from '../domain/path.js';
import type { RequestHead } from '../http/head.js';
import { storedToken } from '../gate/what-if.js';
import type { Match } from '../policy/routes.js';
import type { Route } from '../policy/route.js';
import type { TokenWithUse } from '../store/token-store.js';
import { OWN_ID } from './senders.js';

/**
 * A request of a class with properties besides its method and path, and the content of the store.
 */
export interface Variant {
  /** In words; empty for a plain request. */
  readonly conditions: readonly string[];
  readonly head: RequestHead;
  readonly tokenOf: (id: string) => TokenWithUse;
  /** The customer of the sender. */
  readonly customerId: string;
}

type Matches = readonly [Match | string, Match | string];
type Change = (variant: Variant) => Variant;

/** Properties of the sender that determine which variants there are. */
export interface VariantSettings {
  /** The id of the sender. */
  readonly ownId: string;
  /** Services that a request may name in a header field or a query parameter. */
  readonly services: readonly string[];
}

/** No sender in particular: tokens are made for the service that the request names. */
const ANYBODY: VariantSettings = { ownId: OWN_ID, services: [] };

/**
 * Returns every combination of the properties that the gates consider of two routes. The first is a
 * plain request.
 */
export function variantsOf(
  head: RequestHead,
  matches: Matches,
  { ownId, services }: VariantSettings = ANYBODY,
): Variant[] {
  const found = matches.filter((match) => typeof match !== 'string');
  const routes = found.map(({ route }) => route);
  const plain: Variant = {
    conditions: [],
    head,
    tokenOf: (id) => ({ token: storedToken(id, ownId), use: null }),
    customerId: 'customer',
  };
  const axes: (readonly Change[])[] = [
    ...serviceNames(routes).map((name, i) => serviceAxis(name, [...services, `service-${i}`])),
    ...idAxes(routes, found),
  ];
  return axes.reduce<Variant[]>(
    (all, axis) => all.flatMap((variant) => axis.map((change) => change(variant))),
    [plain],
  );
}

function same(variant: Variant): Variant {
  return variant;
}

/** Returns the fields and parameters that name the service: `header:NAME` and `query:NAME`. */
function serviceNames(routes: readonly Route[]): string[] {
  const names = routes.flatMap(({ service }) =>
    service === null || service.from === 'path' ? [] : [`${service.from}:${service.name}`],
  );
  return [...new Set(names)];
}

/** Returns the ways in which a request may name its service: one value, or none. */
function serviceAxis(source: string, values: readonly string[]): Change[] {
  const named = values.map((value): Change => (variant) => ({
    ...variant,
    head: withService(variant.head, source, value),
  }));
  return [...named, when(`without ${source}`, {})];
}

function withService(head: RequestHead, source: string, value: string): RequestHead {
  const name = source.slice(source.indexOf(':') + 1);
  if (source.startsWith('header:')) return { ...head, fields: [...head.fields, name, value] };
  const query = `${head.query === '' ? '' : `${head.query}&`}${name}=${value}`;
  return { ...head, query, target: `${head.path}?${query}` };
}

function when(condition: string, rest: Partial<Variant>): Change {
  return (variant) => ({ ...variant, ...rest, conditions: [...variant.conditions, condition] });
}

/** Returns the owners that a requested record may have. */
function idAxes(routes: readonly Route[], [match]: readonly Match[]): (readonly Change[])[] {
  const kinds = new Set(routes.map(({ endpoint }) => endpoint?.id ?? null));
  const axes: (readonly Change[])[] = [];
  if (kinds.has('token')) {
    axes.push([
      same,
      when("another user's token", { tokenOf: (id) => ({ token: storedToken(id, 'another'), use: null }) }),
    ]);
  }
  if (kinds.has('customer')) {
    const own = segmentAt(match?.path ?? '', 1) ?? '';
    axes.push([(variant) => ({ ...variant, customerId: own }), when('another customer', {})]);
  }
  return axes;
}
