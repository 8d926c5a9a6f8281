import type { Refusal } from '../domain/refusal.js';
import type { Reply } from '../http/replies.js';
import { firstField } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import type { Policy } from '../policy/decide.js';
import type { Rules } from '../policy/patterns.js';
import type { Store } from '../store/store.js';
import { type Handler, sessionOf, subjectOf } from './call.js';
import type { PageFile, PageFiles } from './page-files.js';
import type { Caller, Person } from './schema/answers.js';
import { describeScope } from './scope-words.js';

/** What the page is told of the configuration. */
export interface PageSettings {
  /** Where it is, with a slash at both ends. */
  readonly path: string;
  /** Name of the field that carries a token. */
  readonly keyName: string;
  readonly scopes: Readonly<Record<string, Rules>>;
  /** Milliseconds; null when tokens may last for ever. */
  readonly maxLifetime: number | null;
  /** Milliseconds without a request after which a session ends. */
  readonly idleTimeout: number;
}

/**
 * Nothing comes from or goes to another place, nothing is written into the document that could run, and nobody
 * shows the page inside another one.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const YEAR_SECONDS = 31_536_000;

/** The web page, and what it asks for besides the endpoints that every client uses. */
export class PageEndpoints {
  readonly #files: PageFiles | null;
  readonly #store: Store;
  readonly #policy: Policy;
  readonly #settings: PageSettings;

  /** @param files null when the page is off: no route leads here then */
  constructor(files: PageFiles | null, store: Store, policy: Policy, settings: PageSettings) {
    this.#files = files;
    this.#store = store;
    this.#policy = policy;
    this.#settings = settings;
  }

  /** GET of the page's path; without the slash at its end, which its relative addresses need, it is sent on. */
  show: Handler<undefined> = async ({ head, path }) => {
    if (!path.endsWith('/'))
      return { status: 308, headers: ['Location', this.#settings.path, ...pageFields(head)] };
    return serveFile(this.#files?.html, head);
  };

  /** GET of a script, a style or an image, by its exact name. */
  showAsset: Handler<undefined> = async ({ head, path }) =>
    serveFile(this.#files?.assets.get(path.slice(path.lastIndexOf('/') + 1)), head);

  /** GET {path}session: who is logged in, what that user may do, and the name and limits that apply. */
  describeCaller: Handler<Caller> = async ({ subject, now }) => {
    const caller = sessionOf(subject);
    const { user } = caller;
    const { keyName, scopes, maxLifetime, idleTimeout } = this.#settings;
    const may = (action: string) => this.#policy.decide(caller, action, null).allowed;
    const customer = await this.#store.getCustomer(user.customerId);
    const services = await this.#store.listServices(user.customerId);
    return {
      status: 200,
      json: {
        user: { id: user.id, name: user.name, login: user.login, role: user.role, customer_id: user.customerId },
        customer: { id: user.customerId, name: customer?.name ?? '' },
        session: { ends_in: Math.floor((caller.session.endsAt - now) / 1000), idle_timeout: Math.floor(idleTimeout / 1000) },
        one_time_password: user.otpSecret !== null,
        may: {
          list_tokens: may('token:read'),
          revoke_tokens: may('token:write'),
          list_customer_tokens: may('customer_token:read'),
          revoke_customer_tokens: may('customer_token:write'),
        },
        services: services.map(({ id, name }) => ({ id, name })),
        scopes: Object.entries(scopes).map(([name, rules]) => describeScope(name, rules)),
        max_lifetime: maxLifetime === null ? null : Math.floor(maxLifetime / 1000),
        key_field: keyName,
      } satisfies Caller,
    };
  }; // prettier-ignore

  /** GET {path}people: whose tokens those of the organisation are. */
  listPeople: Handler<Person[]> = async ({ subject }) => {
    const people = await this.#store.listUsers(subjectOf(subject).user.customerId);
    return { status: 200, json: people.map(({ id, name, login }) => ({ id, name, login }) satisfies Person) };
  };
}

/** Fields of everything that a browser takes as a part of the page. */
function pageFields(head: RequestHead): string[] {
  const fields = [
    ['Content-Security-Policy', CONTENT_SECURITY_POLICY],
    ['Referrer-Policy', 'no-referrer'],
    ['Cross-Origin-Opener-Policy', 'same-origin'],
    ['Cross-Origin-Resource-Policy', 'same-origin'],
    // For browsers that do not know frame-ancestors.
    ['X-Frame-Options', 'DENY'],
  ];
  // Over a connection without TLS browsers ignore it, and it would be wrong (RFC 6797 7.2).
  if (head.client.secure) fields.push(['Strict-Transport-Security', `max-age=${YEAR_SECONDS}`]);
  return fields.flat();
}

function serveFile(file: PageFile | undefined, head: RequestHead): Reply<undefined> | Refusal {
  if (file === undefined) return { refusal: 'not_found', detail: `There is nothing at ${head.path}` };
  const fields = [...pageFields(head), 'Vary', 'Accept-Encoding'];
  return takesGzip(head)
    ? { status: 200, content: file.packed, headers: [...fields, 'Content-Encoding', 'gzip'] }
    : { status: 200, content: file.plain, headers: fields };
}

/** Whether a client asks for gzip by its name; one that forbids it or says nothing gets the file as it is. */
function takesGzip({ fields }: RequestHead): boolean {
  const codings = firstField(fields, 'accept-encoding')?.split(',') ?? [];
  return codings.some((coding) => /^\s*(?:x-)?gzip\s*(?:;\s*q=(?:1|0\.0*[1-9])[\d.]*\s*)?$/i.test(coding));
}
