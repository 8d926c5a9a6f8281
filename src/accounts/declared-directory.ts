import type { EpochMs } from '../util/time.js';
import type { Customer } from '../domain/user.js';

/** In plain text, or as its SHA-256 in hexadecimal. */
export interface LegacyKey {
  readonly customer_id: string;
  readonly key?: string | null | undefined;
  readonly key_sha256?: string | null | undefined;
}

export interface Directory {
  readonly customers: readonly Customer[];
  readonly services: readonly { readonly id: string; readonly customer_id: string; readonly name: string }[];
  readonly users: readonly DirectoryUser[];
  /** Absent: the legacy keys in the store stay as they are. */
  readonly legacy_keys?: readonly LegacyKey[] | undefined;
  /** Absent: those in the store are revoked. */
  readonly tokens?: readonly DeclaredToken[];
  /** Milliseconds from when a token is first applied; absent or null: no limit. */
  readonly max_token_lifetime?: number | null;
}

/** Without `password` and `password_hash`, the user cannot log in. */
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

/** Of a service account. The file has only the SHA-256 of the secret, in hexadecimal. */
export interface DeclaredToken {
  readonly id: string;
  readonly user_id: string;
  readonly name: string;
  readonly secret_sha256: string;
  readonly scope: readonly string[];
  readonly services?: readonly string[] | undefined;
  /** Absent: as late as the limit allows. */
  readonly expires_at?: EpochMs | undefined;
  readonly rate?: string | undefined;
  readonly addresses?: readonly string[] | undefined;
  readonly suspended?: boolean;
}
