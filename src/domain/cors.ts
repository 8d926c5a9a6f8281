export interface CorsSettings {
  /** Origins as browsers send them; a lone `*` allows every origin. */
  readonly origins: '*' | readonly string[];
  /** null: the methods of the route. */
  readonly methods: readonly string[] | null;
  readonly headers: readonly string[];
  readonly expose: readonly string[];
  readonly credentials: boolean;
  /** Milliseconds. */
  readonly max_age: number;
}

export interface CorsHeaders {
  /** Alternating names and values; empty if the page may not read the response. */
  readonly fields: readonly string[];
  /** Whether other origins get different header fields, so that `Vary` must name `Origin`. */
  readonly varies: boolean;
}

/** A preflight request: asks whether a page may send the actual request (Fetch, 3.2.2). */
export interface Preflight {
  readonly origin: string;
  readonly method: string;
  /** `Access-Control-Request-Headers`, a comma-separated list; empty if absent. */
  readonly headers: string;
}

const ANY = '*';

/** Longest list of headers in a preflight, in characters: browsers list those that the page sets. */
const MAX_REQUESTED = 4_096;

const PREFLIGHT_VARY = 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers';

/** The CORS rules of a route (Fetch, 3.2). Response header fields are built once per origin. */
export class Cors {
  /** Identical for equal settings. */
  readonly id: string;
  readonly #settings: CorsSettings;
  readonly #headers: ReadonlySet<string>;
  readonly #byOrigin: ReadonlyMap<string, CorsHeaders>;
  readonly #otherOrigins: CorsHeaders;

  constructor(settings: CorsSettings) {
    const origins = [settings.origins].flat();
    const isOpen = origins.includes(ANY);
    this.id = JSON.stringify(settings);
    this.#settings = settings;
    this.#headers = new Set(settings.headers.map((name) => name.toLowerCase()));
    this.#byOrigin = isOpen
      ? new Map()
      : new Map(origins.map((origin) => [origin, { fields: originFields(settings, origin), varies: true }]));
    this.#otherOrigins = isOpen
      ? { fields: originFields(settings, ANY), varies: false }
      : { fields: [], varies: true };
  }

  /** @param origin value of the only `Origin` field; undefined if there is none */
  headersFor(origin: string | undefined): CorsHeaders {
    const known = origin === undefined ? undefined : this.#byOrigin.get(origin);
    return known ?? this.#otherOrigins;
  }

  /**
   * Returns the fields of a preflight response. They allow nothing unless origin, method and every requested
   * header are allowed.
   * @param methods those that the route accepts on this path
   */
  preflightFields({ origin, method, headers }: Preflight, methods: readonly string[]): readonly string[] {
    const { fields } = this.headersFor(origin);
    const { methods: named, headers: names, max_age: maxAge } = this.#settings;
    const allowed = named === null ? methods : methods.filter((each) => named.includes(each));
    const vary = ['Vary', PREFLIGHT_VARY];
    if (fields.length === 0 || !allows(allowed, method) || !this.#allowsHeaders(headers)) return vary;
    return [
      ...withoutExposed(fields),
      'Access-Control-Allow-Methods',
      allowed.join(', '),
      ...(names.length === 0 ? [] : ['Access-Control-Allow-Headers', names.join(', ')]),
      'Access-Control-Max-Age',
      String(Math.floor(maxAge / 1000)),
      ...vary,
    ];
  }

  #allowsHeaders(requested: string): boolean {
    if (requested.length > MAX_REQUESTED) return false;
    const names = requested.split(',').map((name) => name.trim().toLowerCase());
    return names.every((name) => name === '' || this.#headers.has(name));
  }
}

/** GET implies HEAD. Browsers send both without checking the allowed methods (Fetch, 4.8). */
function allows(methods: readonly string[], method: string): boolean {
  return methods.includes(method === 'HEAD' ? 'GET' : method) || methods.includes(method);
}

const compiled = new WeakMap<CorsSettings, Cors>();

export function corsOf(settings: CorsSettings): Cors {
  const known = compiled.get(settings);
  if (known !== undefined) return known;
  const cors = new Cors(settings);
  compiled.set(settings, cors);
  return cors;
}

const EXPOSED = 'Access-Control-Expose-Headers';

function originFields({ credentials, expose }: CorsSettings, origin: string): string[] {
  return [
    'Access-Control-Allow-Origin',
    origin,
    // Browsers reject it together with "*", and so does the configuration check.
    ...(credentials && origin !== ANY ? ['Access-Control-Allow-Credentials', 'true'] : []),
    ...(expose.length > 0 ? [EXPOSED, expose.join(', ')] : []),
  ];
}

/** Scripts never read the response to a preflight. */
function withoutExposed(fields: readonly string[]): readonly string[] {
  const i = fields.indexOf(EXPOSED);
  return i < 0 ? fields : fields.slice(0, i);
}
