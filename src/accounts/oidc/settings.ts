import type { Config } from '../../config/schema/config.js';

export type ProviderSettings = Config['login']['oidc'][number];

/** Seconds that the clock of a provider may be off. */
export const CLOCK_SKEW_SECONDS = 30;

/** Seconds for which what a provider signed counts. It sends both kinds of tokens as soon as it made them. */
export const MAX_TOKEN_AGE = 300;

/** Why a login at a provider failed. The web page has a sentence for each reason. */
export type LoginFailure =
  /** The provider can't be asked. */
  | 'provider_unavailable'
  /** The provider says so: the person cancelled, or may not use this client. */
  | 'provider_refused'
  /** No login of this browser waits for it: it took too long, was answered before, or began somewhere else. */
  | 'not_begun'
  /** The provider's answer is not valid. */
  | 'invalid_answer'
  /** The provider did not ask anew, or does not say when it did. */
  | 'not_fresh'
  | 'login_missing'
  | 'email_unverified'
  | 'no_role'
  /** The login name is somebody else's. */
  | 'login_taken'
  | 'unknown_customer'
  /** The provider ended the person's session while the login was under way. */
  | 'logged_out'
  | 'locked';

/** A login that came to nothing, as it is thrown. */
export class LoginFailed extends Error {
  readonly failure: LoginFailure;

  /** @param message for the log */
  constructor(failure: LoginFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'LoginFailed';
    this.failure = failure;
  }
}

/** Whether an answer looks forged. */
export function isGuess(error: unknown): boolean {
  return (
    error instanceof LoginFailed && (error.failure === 'not_begun' || error.failure === 'invalid_answer')
  );
}
