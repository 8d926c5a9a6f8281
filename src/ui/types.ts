/** A token as the token endpoints show it. */
export interface Token {
  readonly id: string;
  readonly user_id: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly services: readonly string[];
  readonly created_at: string;
  readonly last_seen_at: string | null;
  readonly expires_at: string | null;
  readonly ip: string | null;
  readonly user_agent: string | null;
}

/** What `POST /tokens` answers: the one time that the secret is told. */
export interface CreatedToken extends Omit<Token, 'last_seen_at' | 'ip' | 'user_agent'> {
  readonly access_token: string;
}

/** A login session of the caller. */
export interface Session {
  readonly id: string;
  readonly created_at: string;
  readonly last_seen_at: string;
  readonly ends_at: string;
  readonly ip: string;
  readonly user_agent: string | null;
  readonly current: boolean;
}

/** A user of the organisation. */
export interface Person {
  readonly id: string;
  readonly name: string;
  readonly login: string;
}

/** A service that a token can be restricted to. */
export interface Service {
  readonly id: string;
  readonly name: string;
}

/** A scope with what it means. */
export interface Scope {
  readonly name: string;
  readonly title: string;
  readonly description: string;
}

/** Who is logged in, and what applies to that user. */
export interface Caller {
  readonly user: Person & { readonly role: string; readonly customer_id: string };
  readonly customer: { readonly id: string; readonly name: string };
  /** Seconds until the session ends at the latest, and without a request. Not times: the reader's clock may be wrong. */
  readonly session: { readonly ends_in: number; readonly idle_timeout: number };
  readonly one_time_password: boolean;
  readonly may: {
    readonly list_tokens: boolean;
    readonly revoke_tokens: boolean;
    readonly list_customer_tokens: boolean;
    readonly revoke_customer_tokens: boolean;
  };
  readonly services: readonly Service[];
  readonly scopes: readonly Scope[];
  /** Seconds; null when tokens may last for ever. */
  readonly max_lifetime: number | null;
  /** Name of the field that carries a token. */
  readonly key_field: string;
}
