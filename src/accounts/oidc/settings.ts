import type { KeyObject } from 'node:crypto';
import type { Config } from '../../config/schema/config.js';

export type ProviderSettings = Config['login']['oidc'][number];

export const CLOCK_SKEW_SECONDS = 30;

/** Of ID tokens and logout tokens, in seconds: a provider sends both as soon as it signs them. */
export const MAX_TOKEN_AGE = 300;

/** The web page has a message for each. */
export type LoginFailure =
  | 'provider_unavailable'
  /** The person cancelled, or may not use this client. */
  | 'provider_refused'
  /** It took too long, was completed before, or began in another browser. */
  | 'not_begun'
  | 'invalid_answer'
  /** The provider did not ask for the login again, or does not say when it did. */
  | 'not_fresh'
  | 'login_missing'
  | 'email_unverified'
  | 'no_role'
  | 'login_taken'
  | 'unknown_customer'
  /** The provider ended the person's session while the login was in progress. */
  | 'logged_out'
  | 'locked';

interface LoginFailedOptions extends ErrorOptions {
  /** Whether the provider or the settings of its client are the reason, and not the callback. */
  readonly isOfProvider?: boolean;
}

export class LoginFailed extends Error {
  readonly failure: LoginFailure;
  readonly isOfProvider: boolean;

  /** @param message for the log */
  constructor(failure: LoginFailure, message: string, options: LoginFailedOptions = {}) {
    super(message, options);
    this.name = 'LoginFailed';
    this.failure = failure;
    this.isOfProvider = options.isOfProvider ?? false;
  }
}

/** Whether a failure suggests that the callback was forged. */
export function looksForged(error: unknown): boolean {
  if (!(error instanceof LoginFailed) || error.isOfProvider) return false;
  return error.failure === 'not_begun' || error.failure === 'invalid_answer';
}

const CURVES: Readonly<Record<string, string>> = {
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512',
};

/** Undefined if the key cannot sign JWTs. */
export function clientKeyAlgorithm({
  asymmetricKeyType: type,
  asymmetricKeyDetails: details,
}: KeyObject): string | undefined {
  if (type === 'rsa') return 'RS256';
  if (type === 'ed25519') return 'Ed25519';
  return type === 'ec' ? CURVES[details?.namedCurve ?? ''] : undefined;
}
