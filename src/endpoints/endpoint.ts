import type { z } from 'zod';
import type { SessionSubject, Subject } from '../domain/credential.js';
import type { GrantCode, Refusal } from '../domain/refusal.js';
import type { EpochMs } from '../util/time.js';
import type { Body } from '../http/body.js';
import type { RequestHead } from '../http/head.js';
import type { Reply } from '../http/replies.js';
import type { EndpointRule } from '../policy/route.js';
import type { HeaderName } from './openapi/headers.js';
import type { RefusalName } from './openapi/refusals.js';
import type { EndpointServices } from './services.js';

/** The settings of a configuration that affect the built-in endpoints. */
export interface EndpointSettings {
  /**
   * Credentials accepted by the endpoints that list and delete tokens
   * (`interface.token_endpoints`).
   */
  readonly tokenEndpoints: 'session' | 'session_or_token';
  /** The path of the web page, with leading and trailing slash; null when it is off. */
  readonly page: string | null;
  /** Whether assertions are signed (`identity.assertion`). */
  readonly assertion: boolean;
  /** Whether the account endpoints are served (`interface.account_endpoints`). */
  readonly account: boolean;
  /** Whether people log in at OpenID Connect providers (`login.oidc`). */
  readonly oidc: boolean;
  /** `listen.ready_path` */
  readonly readyPath: string | null;
  /** The path of `interface.protected_resource`; null without it. */
  readonly resourcePath: string | null;
}

/** Endpoints on one subject. */
export interface Resource {
  /** Groups its operations in the OpenAPI document. */
  readonly tag: string;
  readonly description: string;
  /**
   * Path prefix; null when the configuration turns the resource off. If absent, the paths are
   * complete.
   */
  readonly base?: (settings: EndpointSettings) => string | null;
  /** A path ending in `*` below which no GET or HEAD is forwarded. */
  readonly owns?: string;
  readonly endpoints: readonly Endpoint[];
}

/** One built-in endpoint. Its routes, its OpenAPI operation and its types are derived from this. */
export interface Endpoint<
  Name extends string = string,
  Response extends z.ZodType | null = z.ZodType | null,
  Receipt extends z.ZodType = z.ZodType,
> extends Partial<Omit<EndpointRule, 'name' | 'credential'>> {
  /** Label in metrics, and in camel case the operation id. */
  readonly name: Name;
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly credential:
    EndpointRule['credential'] | ((settings: EndpointSettings) => EndpointRule['credential']);
  /** The action that the policy must allow. */
  readonly action?: string;
  /** Null for an endpoint that is not in the OpenAPI document. */
  readonly summary: string | null;
  readonly description?: string;
  readonly request?: RequestBody;
  /** Whether it accepts a one-time password. */
  readonly otp?: true;
  /** Schema of the success response; null when it has no JSON. */
  readonly response: Response;
  /** Schema of the success response with `?wait=fleet`, where supported. */
  readonly receipt?: Receipt;
  /** When it answers with a redirect (303) instead; absent if it never does. */
  readonly redirects?: string;
  /** Header fields of the success response, besides those of every response. */
  readonly headers?: readonly HeaderName[];
  /** The codes of its refusals by status. */
  readonly codes?: Readonly<Partial<Record<400 | 401 | 403 | 422, readonly GrantCode[]>>>;
  /** Its refusals, besides those derived from `credential` and `method`. */
  readonly refusals?: readonly RefusalName[];
  readonly handle: (
    call: Call,
    services: EndpointServices,
  ) => Promise<
    Reply<Response extends z.ZodType ? z.output<Response> : z.output<Receipt> | undefined> | Refusal
  >;
}

export interface RequestBody {
  readonly schema: z.ZodObject;
  /**
   * Also accepted with a credential that recently confirmed the password, where there is POST
   * /sudo.
   */
  readonly afterSudo?: z.ZodObject;
  /** Whether the body may be omitted. */
  readonly optional?: true;
  /** Also accepted with a session from a fresh provider login, where there are providers. */
  readonly afterFreshLogin?: z.ZodObject;
  /** Accepted content types; JSON and forms if absent. */
  readonly types?: readonly string[];
  /** Schema of a form, where it differs from that of JSON. */
  readonly form?: z.ZodObject;
}

/** An authorized request to a built-in endpoint, with its body read. */
export interface Call {
  readonly head: RequestHead;
  /** The canonical path, including parameters. */
  readonly path: string;
  readonly body: Body;
  /** The sender; null at an endpoint that checks a password itself. */
  readonly subject: Subject | null;
  readonly now: EpochMs;
}

/**
 * Declares an endpoint. Its name stays a literal type, and `handle` must return what `response`
 * declares.
 */
export function endpoint<
  const Name extends string,
  Answer extends z.ZodType | null,
  Receipt extends z.ZodType = z.ZodNever,
>(declaration: Endpoint<Name, Answer, Receipt>): Endpoint<Name, Answer, Receipt> {
  return declaration;
}

/** Returns the subject of a call to an endpoint that takes a credential. */
export function subjectOf({ subject }: Call): Subject {
  if (subject === null)
    throw new Error('the gate let a request without a subject to an endpoint that needs one');
  return subject;
}

/** Returns the subject of a call to an endpoint that takes a session. */
export function sessionOf(call: Call): SessionSubject {
  const known = subjectOf(call);
  if (known.credential !== 'session')
    throw new Error('the gate let a token to an endpoint that takes a session');
  return known;
}

/** Returns the id of the request's token, at an endpoint that takes a token. */
export function ownTokenId(call: Call): string {
  const known = subjectOf(call);
  if (known.credential === 'session')
    throw new Error('the gate let a session to an endpoint that takes a token');
  return known.token.id;
}
