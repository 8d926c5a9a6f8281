import type { Subject } from '../domain/credential.js';
import { formatTime } from '../domain/time.js';

/** When answers name the expiry of the request's token, and in which field (`tokens.warn_before`). */
export interface ExpiryWarning {
  readonly name: string;
  /** Milliseconds before the expiry. */
  readonly before: number;
}

const NONE: readonly string[] = [];

/** The field that names the expiry of a token that expires soon; none for any other credential. */
export function expiryFields(warning: ExpiryWarning | null, subject: Subject | null): readonly string[] {
  if (warning === null || subject === null) return NONE;
  // A JWT is short-lived by nature, and nobody here can renew it.
  if (subject.credential === 'session' || subject.credential === 'jwt') return NONE;
  const { expiresAt } = subject.token;
  if (expiresAt === null || expiresAt - Date.now() > warning.before) return NONE;
  return [warning.name, formatTime(expiresAt)];
}
