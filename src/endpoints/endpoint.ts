import type { z } from 'zod';
import type { FleetReceipt } from '../accounts/fleet-receipts.js';
import type { Logins } from '../accounts/login.js';
import type { ProviderLogins } from '../accounts/oidc/provider-logins.js';
import type { Sessions } from '../accounts/sessions.js';
import type { KeyRing } from '../accounts/signing-keys.js';
import type { TokenRotations } from '../accounts/token-rotations.js';
import type { Tokens } from '../accounts/tokens.js';
import type { SessionSubject, Subject } from '../domain/credential.js';
import type { GrantCode, Refusal } from '../domain/refusal.js';
import type { Gate } from '../gate/gate.js';
import type { Ownership } from '../gate/ownership.js';
import type { Body } from '../http/body.js';
import type { RequestHead } from '../http/head.js';
import type { Content, Reply } from '../http/replies.js';
import type { Policy } from '../policy/decide.js';
import type { EndpointRule } from '../policy/route.js';
import type { DirectoryStore } from '../store/core/directory.js';
import type { MaybePromise } from '../util/async.js';
import type { EpochMs } from '../util/time.js';
import type { HeaderName, RefusalName } from './openapi/components.js';
import type { pageSettings } from './page-settings.js';
import type { ResourceMetadata } from './schema/responses.js';

export interface EndpointSettings {
  /** Of the endpoints that list and delete tokens (`interface.token_endpoints`). */
  readonly tokenEndpoints: 'session' | 'session_or_token';
  /** With leading and trailing slash; null when the page is off. */
  readonly page: string | null;
  /** `identity.assertion` */
  readonly assertion: boolean;
  /** `interface.account_endpoints` */
  readonly account: boolean;
  /** `login.oidc` */
  readonly oidc: boolean;
  /** `listen.ready_path` */
  readonly readyPath: string | null;
  /** Of `interface.protected_resource`; null without it. */
  readonly resourcePath: string | null;
}

export interface Resource {
  /** In the OpenAPI document. */
  readonly tag: string;
  readonly description: string;
  /** Path prefix; null when the configuration turns the resource off. */
  readonly base?: (settings: EndpointSettings) => string | null;
  /** A path ending in `*` below which no GET or HEAD is forwarded. */
  readonly owns?: string;
  readonly endpoints: readonly Endpoint[];
}

/** Routes, OpenAPI operation and types are derived from this. */
export interface Endpoint<
  Name extends string = string,
  Response extends z.ZodType | null = z.ZodType | null,
  Receipt extends z.ZodType = z.ZodType,
> extends Partial<Omit<EndpointRule, 'name' | 'credential'>> {
  /** Label in metrics, and in camel case the operation id. */
  readonly name: Name;
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  /** `configured`: as `interface.token_endpoints` says. */
  readonly credential: EndpointRule['credential'] | 'configured';
  readonly action?: string;
  /** Null for an endpoint that is not in the OpenAPI document. */
  readonly summary: string | null;
  readonly description?: string;
  readonly request?: RequestBody;
  readonly otp?: true;
  /** Of the success response; null when it has no JSON. */
  readonly response: Response;
  /** The same with `?wait=fleet`. */
  readonly receipt?: Receipt;
  /** When it answers with a redirect (303) instead. */
  readonly redirects?: string;
  /** Of the success response, besides those of every response. */
  readonly headers?: readonly HeaderName[];
  /** Of its refusals. */
  readonly codes?: Readonly<Partial<Record<400 | 401 | 403 | 422, readonly GrantCode[]>>>;
  /** Besides those derived from `credential` and `method`. */
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
  readonly optional?: true;
  /** JSON and forms if absent. */
  readonly types?: readonly string[];
  /** Where it differs from that of JSON. */
  readonly form?: z.ZodObject;
}

/** An authorized request with its body. */
export interface Call {
  readonly head: RequestHead;
  /** Canonical. */
  readonly path: string;
  readonly body: Body;
  /** Null at an endpoint that checks a password itself. */
  readonly subject: Subject | null;
  readonly now: EpochMs;
}

export interface EndpointServices {
  readonly directory: DirectoryStore;
  readonly policy: Policy;
  readonly logins: Logins;
  readonly sessions: Sessions;
  readonly tokens: Tokens;
  readonly rotations: TokenRotations;
  /** @param sentAt as for `collectReceipt` */
  readonly collectReceipt: (sentAt: number) => Promise<FleetReceipt>;
  readonly ownership: Ownership;
  /** Null when there is no `POST /sudo`. */
  readonly identify: Gate['identify'] | null;
  /** Null when there are no assertions. */
  readonly signingKeys: KeyRing | null;
  readonly sessionCookie: string;
  /** Null without `interface.protected_resource`. */
  readonly resource: ResourceMetadata | null;
  /** Null without OpenID Connect providers. */
  readonly oidc: {
    readonly logins: ProviderLogins;
    /** As browsers see it. */
    readonly pageUrl: string;
    readonly hasPasswords: () => MaybePromise<boolean>;
  } | null;
  readonly page: ReturnType<typeof pageSettings>;
  /** Whether this process serves requests: its store is available, and it is not shutting down. */
  readonly isReady: () => Promise<boolean>;
  readonly interfaceDocument: () => Promise<Content>;
}

/** Keeps the name a literal type, and checks what `handle` returns. */
export function endpoint<
  const Name extends string,
  Answer extends z.ZodType | null,
  Receipt extends z.ZodType = z.ZodNever,
>(declaration: Endpoint<Name, Answer, Receipt>): Endpoint<Name, Answer, Receipt> {
  return declaration;
}

export function subjectOf({ subject }: Call): Subject {
  if (subject === null)
    throw new Error('the gate let a request without a subject to an endpoint that needs one');
  return subject;
}

export function sessionOf(call: Call): SessionSubject {
  const known = subjectOf(call);
  if (known.credential !== 'session')
    throw new Error('the gate let a token to an endpoint that takes a session');
  return known;
}

export function ownTokenId(call: Call): string {
  const known = subjectOf(call);
  if (known.credential === 'session')
    throw new Error('the gate let a session to an endpoint that takes a token');
  return known.token.id;
}
