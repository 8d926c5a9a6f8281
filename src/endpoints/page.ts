import type { SessionSubject } from '../domain/credential.js';
import { noEndpoint, type Refusal } from '../domain/refusal.js';
import type { Session } from '../domain/session.js';
import { type EpochMs, formatTime } from '../util/time.js';
import type { RequestHead } from '../http/head.js';
import type { Content, Reply } from '../http/replies.js';
import { endpoint, type EndpointServices, type Resource, sessionOf, subjectOf } from './endpoint.js';
import { customerObject, userObject } from './login.js';
import { seconds } from './page-settings.js';
import { caller, type Caller, person, session, type SessionObject } from './schema/responses.js';

/**
 * Allows no other origin as a source or destination, no inline code, no script injection through the DOM, and
 * no embedding of the page in frames.
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

/** They only cover the user's own sessions. */
const sessionEndpoints = [
  endpoint({
    name: 'list_sessions',
    method: 'GET',
    path: 'sessions',
    credential: 'session',
    summary: "List the user's own sessions",
    response: session.array(),
    handle: async (call, { sessions }) => {
      const { user, session: current } = sessionOf(call);
      const found = await sessions.ofUser(user.id, call.now);
      return { status: 200, json: found.map((each) => sessionObject(each, current)) };
    },
  }),
  endpoint({
    name: 'end_other_sessions',
    method: 'DELETE',
    path: 'sessions',
    credential: 'session',
    summary: "End all of the user's sessions except the one of the request",
    response: null,
    handle: async (call, { sessions }) => {
      const { user, session: current } = sessionOf(call);
      return { status: 204, auditEvents: await sessions.endOthers(current, user.customerId) };
    },
  }),
  endpoint({
    name: 'end_session',
    method: 'DELETE',
    path: 'sessions/:id',
    credential: 'session',
    summary: "End one of the user's own sessions",
    response: null,
    refusals: ['NotFound'],
    handle: async (call, { sessions }) => {
      const id = call.path.slice(call.path.lastIndexOf('/') + 1);
      const auditEvents = await sessions.endById(sessionOf(call).user, id);
      if (auditEvents.length === 0) return { refusal: 'not_found', detail: `Cannot find session '${id}'` };
      return { status: 204, auditEvents };
    },
  }),
] as const;

export const page = {
  tag: 'Page',
  description: 'Endpoints of the web page, under its own path',
  base: (settings) => settings.page,
  owns: '*',
  endpoints: [
    ...sessionEndpoints,
    endpoint({
      name: 'show_page',
      method: 'GET',
      path: '',
      credential: 'none',
      success: 200,
      summary: null,
      response: null,
      /** The page's relative URLs require the trailing slash. */
      handle: async ({ head, path }, { page: { files, path: at } }) => {
        if (!path.endsWith('/')) return { status: 308, headers: ['Location', at, ...pageFields(head)] };
        return serveFile(files?.html, head);
      },
    }),
    endpoint({
      name: 'show_page_asset',
      method: 'GET',
      path: 'assets/:name',
      credential: 'none',
      success: null,
      summary: null,
      response: null,
      handle: async ({ head, path }, { page: { files } }) =>
        serveFile(files?.assets.get(path.slice(path.lastIndexOf('/') + 1)), head),
    }),
    endpoint({
      name: 'describe_caller',
      method: 'GET',
      path: 'session',
      credential: 'session',
      summary: 'Show the logged-in user, with permissions and limits',
      response: caller,
      handle: async (call, { directory, policy, oidc, sessions, page: { idleTimeout, callers } }) => {
        const subject = sessionOf(call);
        const { user } = subject;
        const may = (action: string) => policy.decide(subject, action, null).allowed;
        const customer = await customerObject(directory, user);
        const services = await directory.listServices(user.customerId);
        return {
          status: 200,
          json: {
            user: userObject(user),
            customer,
            session: { ends_in: Math.floor((subject.session.endsAt - call.now) / 1000), idle_timeout: seconds(idleTimeout) },
            one_time_password: user.otpSecret !== null,
            ...(await providerOf(subject, call.now, { oidc, sessions })),
            may: {
              list_tokens: may('token:read'),
              revoke_tokens: may('token:write'),
              list_customer_tokens: may('customer_token:read'),
              revoke_customer_tokens: may('customer_token:write'),
            },
            services: services.map(({ id, name }) => ({ id, name })),
            ...callers,
          },
        };
      }, // prettier-ignore
    }),
    endpoint({
      name: 'list_people',
      method: 'GET',
      path: 'people',
      credential: 'session',
      action: 'customer_token:read',
      summary: "List the users of the user's own customer",
      response: person.array(),
      handle: async (call, { directory }) => {
        const people = await directory.listUsers(subjectOf(call).user.customerId);
        return {
          status: 200,
          json: people.map(({ id, name, login }) => ({ id, name, login })),
        };
      },
    }),
  ],
} as const satisfies Resource;

function sessionObject(session: Session, current: Session): SessionObject {
  return {
    id: session.id,
    created_at: formatTime(session.createdAt),
    last_seen_at: formatTime(session.lastSeenAt),
    ends_at: formatTime(session.endsAt),
    ip: session.ip,
    user_agent: session.userAgent,
    current: session.digest === current.digest,
    ...(session.provider === undefined ? {} : { provider: session.provider.name }),
  };
}

/** If it is still configured. */
async function providerOf(
  subject: SessionSubject,
  now: EpochMs,
  { oidc, sessions }: Pick<EndpointServices, 'oidc' | 'sessions'>,
): Promise<Pick<Caller, 'provider'>> {
  const { session, user } = subject;
  const issuer = session.provider === undefined ? undefined : user.provider?.issuer;
  const found = issuer === undefined ? undefined : oidc?.logins.ofIssuer(issuer);
  return found === undefined ? {} : { provider: { ...found, confirmed: await sessions.isFresh(subject, now) } };
} // prettier-ignore

function pageFields(head: RequestHead): string[] {
  const fields = [
    ['Content-Security-Policy', CONTENT_SECURITY_POLICY],
    ['Referrer-Policy', 'no-referrer'],
    ['Cross-Origin-Opener-Policy', 'same-origin'],
    ['Cross-Origin-Resource-Policy', 'same-origin'],
    // For browsers without support for frame-ancestors.
    ['X-Frame-Options', 'DENY'],
  ];
  // Must not be sent without TLS, where browsers ignore it (RFC 6797 7.2).
  if (head.client.secure) fields.push(['Strict-Transport-Security', `max-age=${YEAR_SECONDS}`]);
  return fields.flat();
}

function serveFile(content: Content | undefined, head: RequestHead): Reply<undefined> | Refusal {
  if (content === undefined) return noEndpoint(head);
  return { status: 200, content, headers: pageFields(head) };
}
