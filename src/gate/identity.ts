import { type MaybePromise, mapMaybe } from '../domain/maybe-promise.js';
import type { Subject } from '../domain/credential.js';
import { SubjectMemo } from '../domain/subject-memo.js';
import type { EpochMs } from '../domain/time.js';
import { asPropertyName } from '../http/fields.js';
import type { Assertions, BoundRequest } from './assertion.js';

/** Name of each injected field by what it says; null leaves it out (`identity.headers`). */
export interface IdentityNames {
  readonly user_id: string | null;
  readonly customer_id: string | null;
  readonly login: string | null;
  readonly role: string | null;
  readonly scope: string | null;
  readonly services: string | null;
  readonly credential: string | null;
  readonly token_id: string | null;
}

/**
 * The fields that say who is calling, with the signed assertion when there is one. A promise only when it has to be signed.
 *
 * @param request what the assertion is bound to; null where it is not
 * @throws Unavailable: then the request goes nowhere
 */
export type Identify = (
  subject: Subject,
  now: EpochMs,
  request: BoundRequest | null,
) => MaybePromise<readonly string[]>;

/** Makes the one function that every entrance tells the upstream by. @param assertion null when none is signed */
export function createIdentify(
  names: IdentityNames,
  sessionScope: string,
  assertion: { readonly header: string; readonly assertions: Assertions } | null,
): Identify {
  const built = new SubjectMemo((subject) => identityFields(subject, names, sessionScope));
  if (assertion === null) return (subject) => built.of(subject);
  const { header, assertions } = assertion;
  return (subject, now, request) => {
    const fields = built.of(subject);
    const jwt = request === null ? assertions.of(subject, now) : assertions.boundTo(request, subject, now);
    return mapMaybe(jwt, (text) => [...fields, header, text]);
  };
}

/**
 * Says to the upstream who is calling: a flat list of fields, injected after everything else.
 *
 * A field without a value (the token of a session, the services of an unrestricted token) is absent.
 */
export function identityFields(subject: Subject, names: IdentityNames, sessionScope: string): string[] {
  const { user } = subject;
  const token = subject.credential === 'session' ? undefined : subject.token;
  const fields: string[] = [];
  add(fields, names.user_id, user.id);
  add(fields, names.customer_id, user.customerId);
  add(fields, names.login, user.login);
  add(fields, names.role, user.role);
  add(fields, names.scope, token === undefined ? sessionScope : token.scopes.join(' '));
  add(fields, names.services, token === undefined ? '' : token.services.join(','));
  add(fields, names.credential, subject.credential);
  add(fields, names.token_id, subject.credential === 'jwt' ? '' : (token?.id ?? ''));
  return fields;
}

function add(fields: string[], name: string | null, value: string): void {
  if (name !== null && value !== '') fields.push(asPropertyName(name), fieldValueOf(value));
}

/** Percent-encodes (UTF-8) what a field can't carry: all but visible ASCII and space; `%` too, to stay reversible. */
function fieldValueOf(value: string): string {
  return /^[\x21-\x24\x26-\x7e](?:[\x20-\x24\x26-\x7e]*[\x21-\x24\x26-\x7e])?$/.test(value)
    ? value
    : encodeURIComponent(value.toWellFormed());
}
