import type { EpochMs } from '../util/time.js';
import type { Customer } from '../domain/user.js';

/** A legacy key, in plain text or as its SHA-256 in hexadecimal. */
export interface LegacyKey {
  readonly customer_id: string;
  readonly key?: string | null | undefined;
  readonly key_sha256?: string | null | undefined;
}

/** The contents of a directory file. */
export interface Directory {
  readonly customers: readonly Customer[];
  readonly services: readonly { readonly id: string; readonly customer_id: string; readonly name: string }[];
  readonly users: readonly DirectoryUser[];
  /** Absent: the legacy keys in the store stay as they are. */
  readonly legacy_keys?: readonly LegacyKey[] | undefined;
  /** Absent: no tokens; those in the store are revoked. */
  readonly tokens?: readonly DeclaredToken[];
  /**
   * Maximum lifetime of a declared token in milliseconds, from when it is first applied.
   *
   * Absent or null: no limit.
   */
  readonly max_token_lifetime?: number | null;
}

/**
 * A user of a directory file.
 *
 * It has `password`, `password_hash`, or neither if the user cannot log in.
 */
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

/**
 * A token of a directory file, for a service account.
 *
 * The file contains only the SHA-256 of its secret, in hexadecimal.
 */
export interface DeclaredToken {
  readonly id: string;
  readonly user_id: string;
  readonly name: string;
  readonly secret_sha256: string;
  readonly scope: readonly string[];
  /** Absent: not restricted to services. */
  readonly services?: readonly string[] | undefined;
  /** Absent: no expiry, or the latest that the limit allows. */
  readonly expires_at?: EpochMs | undefined;
  /** Absent: no request rate of its own. */
  readonly rate?: string | undefined;
  /** Absent: accepted from any address, unless there is a default restriction. */
  readonly addresses?: readonly string[] | undefined;
  /** Absent: not suspended. */
  readonly suspended?: boolean;
}
