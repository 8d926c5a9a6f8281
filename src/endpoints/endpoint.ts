import type { z } from 'zod';
import type { SessionSubject, Subject } from '../domain/credential.js';
import type { GrantCode, Refusal } from '../domain/refusal.js';
import type { EpochMs } from '../domain/time.js';
import type { Body } from '../http/body.js';
import type { RequestHead } from '../http/head.js';
import type { Reply } from '../http/replies.js';
import type { EndpointRule } from '../policy/route.js';
import type { HeaderName } from './openapi/headers.js';
import type { RefusalName } from './openapi/refusals.js';
import type { EndpointServices } from './services.js';

/** What a configuration decides about the built-in endpoints. */
export interface EndpointSettings {
  /** The credentials that the list and delete endpoints of tokens take (`interface.token_endpoints`). */
  readonly tokenEndpoints: 'session' | 'session_or_token';
  /** The path of the web page, with a slash at both ends; null when it is off. */
  readonly page: string | null;
  /** Whether assertions are signed (`identity.assertion`). */
  readonly assertion: boolean;
  /** Whether the account endpoints are served (`interface.account_endpoints`). */
  readonly account: boolean;
  /** Whether people log in at OpenID Connect providers (`login.oidc`). */
  readonly oidc: boolean;
}

/** Endpoints with one subject. */
export interface Resource {
  /** Groups its operations in the OpenAPI document. */
  readonly tag: string;
  readonly description: string;
  /** What its paths begin with; null when the configuration turns it off. Absent: the paths are complete. */
  readonly base?: (settings: EndpointSettings) => string | null;
  /** A path ending in `*`, of which Latchkey forwards nothing. */
  readonly owns?: string;
  readonly endpoints: readonly Endpoint[];
}

/** One built-in endpoint. Its routes, its operation in the OpenAPI document and its types derive from this. */
export interface Endpoint<
  Name extends string = string,
  Answer extends z.ZodType | null = z.ZodType | null,
  Receipt extends z.ZodType = z.ZodType,
> extends Partial<Pick<EndpointRule, 'id' | 'othersAction' | 'success' | 'takesJwt' | 'writes'>> {
  /** Label of metrics, and in camel case the id of the operation. */
  readonly name: Name;
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly takes: EndpointRule['takes'] | ((settings: EndpointSettings) => EndpointRule['takes']);
  /** The action that the policy has to allow. */
  readonly action?: string;
  /** null: it serves files to browsers and is no part of the OpenAPI document. */
  readonly summary: string | null;
  readonly description?: string;
  readonly request?: RequestBody;
  /** Whether it takes a one-time password. */
  readonly otp?: true;
  /** The JSON of its success; null when there is none. */
  readonly answer: Answer;
  /** The JSON of its success with `?wait=fleet`, where it takes that. */
  readonly receipt?: Receipt;
  /** Headers of its success besides those of every answer. */
  readonly headers?: readonly HeaderName[];
  /** The codes of its refusals, by status. */
  readonly codes?: Readonly<Partial<Record<400 | 401 | 403 | 422, readonly GrantCode[]>>>;
  /** Its refusals besides those that follow from `takes` and `method`. */
  readonly refusals?: readonly RefusalName[];
  readonly handle: (
    call: Call,
    services: EndpointServices,
  ) => Promise<Reply<Answer extends z.ZodType ? z.output<Answer> : z.output<Receipt> | undefined> | Refusal>;
}

export interface RequestBody {
  readonly schema: z.ZodObject;
  /** What it takes as well with a credential that confirmed the password lately, where there is POST /sudo. */
  readonly afterSudo?: z.ZodObject;
  /** Whether it may be left out. */
  readonly optional?: true;
  /** What it takes as well with a session of a fresh login at a provider, where there are providers. */
  readonly afterFreshLogin?: z.ZodObject;
  /** Absent: JSON and forms. */
  readonly types?: readonly string[];
  /** What a form has, where that is not what JSON has. */
  readonly form?: z.ZodObject;
}

/** A request to a built-in endpoint, authorized and with its body read. */
export interface Call {
  readonly head: RequestHead;
  /** The canonical path, in which parameters stand. */
  readonly path: string;
  readonly body: Body;
  /** Who sent it; null at an endpoint that checks a password itself. */
  readonly subject: Subject | null;
  readonly now: EpochMs;
}

/** Declares an endpoint: its name stays a literal type, and `handle` has to answer with what `answer` says. */
export function endpoint<
  const Name extends string,
  Answer extends z.ZodType | null,
  Receipt extends z.ZodType = z.ZodNever,
>(declaration: Endpoint<Name, Answer, Receipt>): Endpoint<Name, Answer, Receipt> {
  return declaration;
}

/** The subject of a call to an endpoint that takes a credential. */
export function subjectOf({ subject }: Call): Subject {
  if (subject === null)
    throw new Error('the gate let a request without a subject to an endpoint that needs one');
  return subject;
}

/** The subject of a call to an endpoint that takes a session. */
export function sessionOf(call: Call): SessionSubject {
  const known = subjectOf(call);
  if (known.credential !== 'session')
    throw new Error('the gate let a token to an endpoint that takes a session');
  return known;
}

/** Id of the request's token, at an endpoint that takes a token. */
export function ownTokenId(call: Call): string {
  const known = subjectOf(call);
  if (known.credential === 'session')
    throw new Error('the gate let a session to an endpoint that takes a token');
  return known.token.id;
}
