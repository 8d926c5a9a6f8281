import { isRead } from '../domain/methods.js';
import { segmentAt } from '../domain/path.js';
import type { RequestHead } from '../http/head.js';
import { storedToken } from '../gate/what-if.js';
import { guardedUser, type Match } from '../policy/routes.js';
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
  readonly hasActiveTokens: (userId: string) => boolean;
  readonly tokenOf: (id: string) => TokenWithUse | undefined;
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
    hasActiveTokens: () => false,
    tokenOf: (id) => ({ token: storedToken(id, ownId), use: null }),
    customerId: 'customer',
  };
  const axes: (readonly Change[])[] = [
    differ(routes, ({ allowsServiceWorker }) => allowsServiceWorker) ? [same, asServiceWorker] : [same],
    differ(routes, ({ auth, endpoint }) => `${auth} ${endpoint?.credential}`)
      ? [same, fromOtherOrigin]
      : [same],
    isRead(head.method) && differ(routes, (route) => route.allowsBodyOnRead) ? [same, withBody] : [same],
    ...serviceNames(routes).map((name, i) => serviceAxis(name, [...services, `service-${i}`])),
    guardAxis(found),
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

/**
 * Whether the routes differ in a value.
 *
 * A path that one side refuses is decided by the other route alone, which may still refuse a body.
 */
function differ(routes: readonly Route[], value: (route: Route) => unknown): boolean {
  return new Set(routes.map(value)).size > 1;
}

function asServiceWorker(variant: Variant): Variant {
  return {
    ...variant,
    conditions: [...variant.conditions, 'the script of a service worker'],
    head: { ...variant.head, serviceWorker: true },
  };
}

/** Browsers also send cookies with a WebSocket handshake, which is a GET. */
function fromOtherOrigin(variant: Variant): Variant {
  const webSocket = isRead(variant.head.method);
  return {
    ...variant,
    conditions: [
      ...variant.conditions,
      webSocket ? 'a WebSocket from another origin' : 'from another origin',
    ],
    head: { ...variant.head, origin: 'https://other.invalid', webSocket },
  };
}

function withBody(variant: Variant): Variant {
  return {
    ...variant,
    conditions: [...variant.conditions, 'with a body'],
    head: { ...variant.head, contentLength: 1 },
  };
}

/** Returns the fields and parameters that name the service: `header:NAME` and `query:NAME`. */
function serviceNames(routes: readonly Route[]): string[] {
  const names = routes.flatMap(({ service }) =>
    service === null || service.from === 'path' ? [] : [`${service.from}:${service.name}`],
  );
  return [...new Set(names)];
}

/** Returns the ways in which a request may name its service: one value, none, or ambiguously. */
function serviceAxis(source: string, values: readonly string[]): Change[] {
  const add = (value: string | null, condition: string[]): Change => {
    if (value === null)
      return (variant) => ({ ...variant, conditions: [...variant.conditions, ...condition] });
    return (variant) => ({
      ...variant,
      conditions: [...variant.conditions, ...condition],
      head: withService(variant.head, source, value),
    });
  };
  return [
    ...values.map((value) => add(value, [])),
    add(null, [`without ${source}`]),
    add('a,b', [`with an unclear ${source}`]),
  ];
}

function withService(head: RequestHead, source: string, value: string): RequestHead {
  const name = source.slice(source.indexOf(':') + 1);
  if (source.startsWith('header:')) return { ...head, fields: [...head.fields, name, value] };
  const query = `${head.query === '' ? '' : `${head.query}&`}${name}=${value}`;
  return { ...head, query, target: `${head.path}?${query}` };
}

/**
 * Returns which users have active tokens that forbid the request: none of them, each of them alone,
 * or all.
 */
function guardAxis(matches: readonly Match[]): Change[] {
  const users = [...new Set(matches.map(guardedUser).filter((user) => user !== undefined))];
  if (users.length === 0) return [same];
  const sets = users.length === 1 ? [users] : [...users.map((user) => [user]), users];
  return [
    same,
    ...sets.map((set): Change => (variant) => ({
      ...variant,
      conditions: [...variant.conditions, 'the user in the path has active tokens'],
      hasActiveTokens: (id) => set.includes(id),
    })),
  ];
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
      when('a token that does not exist', { tokenOf: () => undefined }),
    ]);
  }
  if (kinds.has('customer')) {
    const own = segmentAt(match?.path ?? '', 1) ?? '';
    axes.push([(variant) => ({ ...variant, customerId: own }), when('another customer', {})]);
  }
  return axes;
}
