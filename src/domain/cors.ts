/** Which pages of other origins may read answers, as a configuration says it. */
export interface CorsSettings {
  /** Origins as browsers send them; `*`, alone, is every one. */
  readonly origins: '*' | readonly string[];
  /** null: those of the route. */
  readonly methods: readonly string[] | null;
  readonly headers: readonly string[];
  readonly expose: readonly string[];
  readonly credentials: boolean;
  /** Milliseconds. */
  readonly max_age: number;
}

/** What an answer says of the page that asked for it. */
export interface CorsAnswer {
  /** Flat; none for a page that may not read it. */
  readonly fields: readonly string[];
  /** Whether another origin would get other fields, so that `Vary` names `Origin`. */
  readonly varies: boolean;
}

/** A preflight: what a page asks for before it sends a request (Fetch, 3.2.2). */
export interface Preflight {
  readonly origin: string;
  readonly method: string;
  /** `Access-Control-Request-Headers`, a comma-separated list; empty when there is none. */
  readonly headers: string;
}

const ANY = '*';

/** Longest list of headers that a preflight may name, in characters. Browsers name those that a page sets. */
const MAX_REQUESTED = 4_096;

/** All that the answer to a preflight depends on. */
const PREFLIGHT_VARY = 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers';

/** The CORS rules of a route (Fetch, 3.2). What an answer gets is put together once for each origin. */
export class Cors {
  /** Equal for equal settings. */
  readonly id: string;
  readonly #settings: CorsSettings;
  readonly #headers: ReadonlySet<string>;
  readonly #byOrigin: ReadonlyMap<string, CorsAnswer>;
  readonly #byOthers: CorsAnswer;

  constructor(settings: CorsSettings) {
    const origins = [settings.origins].flat();
    const isOpen = origins.includes(ANY);
    this.id = JSON.stringify(settings);
    this.#settings = settings;
    this.#headers = new Set(settings.headers.map((name) => name.toLowerCase()));
    this.#byOrigin = isOpen
      ? new Map()
      : new Map(origins.map((origin) => [origin, { fields: answerFields(settings, origin), varies: true }]));
    this.#byOthers = isOpen
      ? { fields: answerFields(settings, ANY), varies: false }
      : { fields: [], varies: true };
  }

  /** What an answer says. @param origin the value of the only `Origin` field; undefined when there is none */
  answerTo(origin: string | undefined): CorsAnswer {
    const known = origin === undefined ? undefined : this.#byOrigin.get(origin);
    return known ?? this.#byOthers;
  }

  /**
   * The fields that answer a preflight, flat. Without the origin, the method and every header being allowed they allow
   * nothing.
   *
   * @param methods those that the route takes on this path
   */
  preflightFields({ origin, method, headers }: Preflight, methods: readonly string[]): readonly string[] {
    const { fields } = this.answerTo(origin);
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

/** HEAD comes with GET. Browsers ask of neither whether it is listed (Fetch, 4.8). */
function allows(methods: readonly string[], method: string): boolean {
  return methods.includes(method === 'HEAD' ? 'GET' : method) || methods.includes(method);
}

const made = new WeakMap<CorsSettings, Cors>();

/** The rules of some settings, made once. */
export function corsOf(settings: CorsSettings): Cors {
  const known = made.get(settings);
  if (known !== undefined) return known;
  const cors = new Cors(settings);
  made.set(settings, cors);
  return cors;
}

const EXPOSED = 'Access-Control-Expose-Headers';

function answerFields({ credentials, expose }: CorsSettings, origin: string): string[] {
  return [
    'Access-Control-Allow-Origin',
    origin,
    // Browsers refuse it beside "*", and so does the check of the configuration.
    ...(credentials && origin !== ANY ? ['Access-Control-Allow-Credentials', 'true'] : []),
    ...(expose.length > 0 ? [EXPOSED, expose.join(', ')] : []),
  ];
}

/** A preflight has no answer that anybody reads. */
function withoutExposed(fields: readonly string[]): readonly string[] {
  const i = fields.indexOf(EXPOSED);
  return i < 0 ? fields : fields.slice(0, i);
}
