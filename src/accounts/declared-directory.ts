import type { EpochMs } from '../domain/time.js';
import type { Customer } from '../domain/user.js';

/** A legacy key, plain or as its SHA-256 in hexadecimal. */
export interface LegacyKey {
  readonly customer_id: string;
  readonly key?: string | null | undefined;
  readonly key_sha256?: string | null | undefined;
}

/** What a directory file declares. */
export interface Directory {
  readonly customers: readonly Customer[];
  readonly services: readonly { readonly id: string; readonly customer_id: string; readonly name: string }[];
  readonly users: readonly DirectoryUser[];
  /** Absent: the legacy keys in the store are left as they are. */
  readonly legacy_keys?: readonly LegacyKey[] | undefined;
  /** Absent: none, so that those in the store are revoked. */
  readonly tokens?: readonly DeclaredToken[];
  /** Longest lifetime of a declared token from when it is first applied, milliseconds; absent or null is no limit. */
  readonly max_token_lifetime?: number | null;
}

/** A user of a directory file; `password` or `password_hash`, or neither for one who can't log in. */
export interface DirectoryUser {
  readonly id: string;
  readonly customer_id: string;
  readonly login: string;
  readonly name: string;
  readonly role: string;
  readonly password_hash?: string | null | undefined;
  readonly password?: string | null | undefined;
  readonly otp_secret?: string | null | undefined;
  readonly locked: boolean;
}

/** A token of a directory file: a service account, known by the SHA-256 of its secret in hexadecimal. */
export interface DeclaredToken {
  readonly id: string;
  readonly user_id: string;
  readonly name: string;
  readonly secret_sha256: string;
  readonly scope: readonly string[];
  /** Absent: it is not restricted to services. */
  readonly services?: readonly string[] | undefined;
  /** Absent: it does not expire, or as late as the limit allows. */
  readonly expires_at?: EpochMs | undefined;
  /** Absent: it has no request rate of its own. */
  readonly rate?: string | undefined;
  /** Absent: it is accepted from any address, as far as it has no others by default. */
  readonly addresses?: readonly string[] | undefined;
  /** Absent: it is not. */
  readonly suspended?: boolean;
}
