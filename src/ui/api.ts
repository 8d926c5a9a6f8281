import { otpFieldName } from './address.js';
import type {
  Caller,
  CreatedTokenObject as CreatedToken,
  LoginMethods,
  Person,
  SessionObject as Session,
  TokenObject as Token,
} from '../endpoints/schema/responses.js';

export type { Caller, CreatedToken, LoginMethods, Person, Session, Token };

export type Service = Caller['services'][number];

export type Scope = Caller['scopes'][number];

/** In milliseconds, of the server's clock. */
let ahead = 0;

/** By the server's clock, which expiries and last uses follow: the browser's may be wrong. */
export function currentTime(): number {
  return Date.now() + ahead;
}

export type Failure =
  /** The call may or may not have taken effect. */
  | { readonly kind: 'no_answer' }
  | { readonly kind: 'ended' }
  | {
      readonly kind: 'refused';
      readonly status: number;
      readonly code: string;
      readonly detail: string;
      /** Seconds. */
      readonly retryAfter: number | null;
    };

export type Result<T> =
  | {
      readonly ok: true;
      readonly value: T;
      /** Tokens that the call reached because they came from the named one by rotation. */
      readonly further?: number;
      /** Where the browser continues. */
      readonly location?: string | null;
    }
  | { readonly ok: false; readonly failure: Failure };

export interface NewToken {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly services: readonly string[];
  /** ISO 8601; null when it does not expire. */
  readonly expiresAt: string | null;
}

/** An absent limit stays, and null removes one. */
export interface LimitChange {
  readonly suspended?: boolean;
  readonly rate?: string | null;
  readonly addresses?: readonly string[] | null;
}

export interface Proof {
  readonly login: string;
  readonly password: string;
  /** Empty until the account asks for one. */
  readonly otp: string;
}

interface Call {
  readonly form?: URLSearchParams;
  readonly json?: unknown;
  readonly headers?: Record<string, string>;
  /** A 401 then refers to the password, and not to the session. */
  readonly checksPassword?: boolean;
}

/** Over plain HTTP, a 401 would otherwise make the browser ask for a password (`Basic`). */
const BY_SCRIPT = { 'X-Requested-With': 'XMLHttpRequest' };

const JSON_BODY = { 'Content-Type': 'application/json' };

const TIMEOUT_MS = 20_000;

let answeredAt = 0;
let whenEnded: () => void = () => undefined;

export function onSessionEnded(act: () => void): void {
  whenEnded = act;
}

/** Each response keeps the session alive. */
export function lastAnswerAt(): number {
  return answeredAt;
}

async function call<T>(method: string, path: string, { form, json, headers, checksPassword }: Call = {}): Promise<Result<T>> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(path, {
      method,
      headers: { ...BY_SCRIPT, Accept: 'application/json', ...(json === undefined ? {} : JSON_BODY), ...headers },
      body: json === undefined ? (form ?? null) : JSON.stringify(json),
      cache: 'no-store',
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    text = await response.text();
  } catch {
    return { ok: false, failure: { kind: 'no_answer' } };
  }
  const body = parse(text);
  // A page of something in between, like a captive portal, is no response of the server.
  if (response.ok && response.status !== 204 && body === undefined)
    return { ok: false, failure: { kind: 'no_answer' } };
  answeredAt = Date.now();
  ahead = (Date.parse(response.headers.get('Date') ?? '') || answeredAt) - answeredAt;
  const further = Number(response.headers.get('Latchkey-Further-Tokens') ?? 0);
  if (response.ok) return { ok: true, value: body as T, further, location: response.headers.get('Location') };
  if (response.status === 401 && checksPassword !== true) {
    whenEnded();
    return { ok: false, failure: { kind: 'ended' } };
  }
  const { code, msg, detail } = (body ?? {}) as Record<string, string | undefined>;
  const retryAfter = Number(response.headers.get('Retry-After') ?? Number.NaN);
  return {
    ok: false,
    failure: {
      kind: 'refused',
      status: response.status,
      code: code ?? '',
      detail: detail ?? msg ?? '',
      retryAfter: Number.isFinite(retryAfter) ? retryAfter : null,
    },
  };
} // prettier-ignore

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function isGone(failure: Failure): boolean {
  return failure.kind === 'refused' && failure.status === 404;
}

export function isWrongGrant(failure: Failure): boolean {
  return failure.kind === 'refused' && failure.code === 'invalid_grant';
}

/** Whether a user without a password has to log in at the provider again. */
export function isUnconfirmed(failure: Failure, { provider }: Caller): boolean {
  return provider !== undefined && failure.kind === 'refused' && failure.code === 'invalid_request';
}

/** The response then clears what the browser stored for this origin, including service workers. */
const BY_PAGE = { 'Latchkey-Page': '1' };

export const getCaller = () => call<Caller>('GET', 'session');

export const getLoginMethods = () => call<LoginMethods>('GET', 'login-methods');

const otpField = (otp: string) => (otp === '' ? undefined : { [otpFieldName()]: otp });

export const logIn = ({ login, password, otp }: Proof) =>
  call<unknown>('POST', '/login', {
    form: new URLSearchParams({ user: login, password }),
    headers: { ...BY_PAGE, ...otpField(otp) },
    checksPassword: true,
  });

export const logOut = () => call<undefined>('POST', '/logout', { headers: BY_PAGE });

export const listTokens = () => call<Token[]>('GET', '/tokens');

export const listCustomerTokens = (id: string) =>
  call<Token[]>('GET', `/customer/${encodeURIComponent(id)}/tokens`);

export const listPeople = () => call<Person[]>('GET', 'people');

export const revokeToken = (id: string) => call<undefined>('DELETE', `/tokens/${encodeURIComponent(id)}`);

export const updateToken = (id: string, change: LimitChange) =>
  call<Token>('PATCH', `/tokens/${encodeURIComponent(id)}`, { json: change });

/** @param proof null when a fresh login at the provider suffices */
export function createToken(token: NewToken, proof: Proof | null) {
  const form = new URLSearchParams({
    ...(proof && { username: proof.login, password: proof.password }),
    name: token.name,
    scope: token.scopes.join(' '),
  });
  for (const id of token.services) form.append('services[]', id);
  if (token.expiresAt !== null) form.append('expires_at', token.expiresAt);
  const headers = { ...otpField(proof?.otp ?? '') };
  return call<CreatedToken>('POST', '/tokens', { form, headers, checksPassword: true });
}

/** @param overlap seconds for which the old token still works */
export const rotateToken = (id: string, overlap: number) =>
  call<CreatedToken>('POST', `/tokens/${encodeURIComponent(id)}/rotate`, {
    form: new URLSearchParams({ overlap: String(overlap) }),
  });

export const listSessions = () => call<Session[]>('GET', 'sessions');

export const endSession = (id: string) => call<undefined>('DELETE', `sessions/${encodeURIComponent(id)}`);

export const endOtherSessions = () => call<undefined>('DELETE', 'sessions');
