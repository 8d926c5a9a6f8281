// Written by "npm run docs:openapi" from docs/openapi.json.

export interface paths {
  '/login': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /**
     * Log in
     * @description The response sets the session cookie. Each login starts a new session and ends the one of the request.
     */
    post: operations['login'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/logout': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /**
     * Log out
     * @description Ends the session of the request. `Location` is where the logout continues at its identity provider; a browser that submits a form is sent there, or to the web page.
     */
    post: operations['logout'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/tokens': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * List the tokens of the user
     * @description The oldest first. Needs the action `token:read`.
     */
    get: operations['listTokens'];
    put?: never;
    /**
     * Create a token
     * @description No other response ever contains the secret. A parameter that looks like a mistyped restriction, such as `scopes` or `expires`, gets 422 with a detail that names the right one; other unknown parameters are ignored.
     */
    post: operations['createToken'];
    /**
     * Revoke several tokens, all of them or none
     * @description Needs the action `token:write`.
     */
    delete: operations['revokeTokens'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/customer/{id}/tokens': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * List the tokens of every user of the caller's own customer
     * @description The oldest first. `id` is the id of the caller's own customer. Needs the action `customer_token:read`.
     */
    get: operations['listCustomerTokens'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/tokens/self': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * Show the token of the request
     * @description For a JWT from another issuer: what it may do here, and until when.
     */
    get: operations['showOwnToken'];
    put?: never;
    post?: never;
    /** Revoke the token of the request */
    delete: operations['revokeOwnToken'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/tokens/{id}': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * Show a token of the caller's own customer
     * @description Needs the action `token:read`.
     */
    get: operations['showToken'];
    put?: never;
    post?: never;
    /**
     * Revoke a token
     * @description Every token that came from it by rotation is revoked too. Another user's token needs the action `customer_token:write` too. Needs the action `token:write`.
     */
    delete: operations['revokeToken'];
    options?: never;
    head?: never;
    /**
     * Suspend, resume or limit a token
     * @description Fields that are left out do not change, and `null` removes a limit. A suspended token is refused like an unknown one until it is resumed; so is every token that came from it by rotation. Another user's token needs the action `customer_token:write` too. Needs the action `token:write`.
     */
    patch: operations['updateToken'];
    trace?: never;
  };
  '/tokens/self/rotate': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /**
     * Replace the token of the request
     * @description The response contains a new token with the same name, scopes, services and limits, and its secret, which is shown only once. The old token is accepted until the overlap ends. A parameter that looks like a restriction, such as `scope` or `expires_at`, or like a mistyped `overlap`, gets 422. So does a token that was rotated before.
     */
    post: operations['rotateOwnToken'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/tokens/{id}/rotate': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /**
     * Replace a token
     * @description The token must be one of the caller's own, and must not allow more than the caller may do. Needs the action `token:write`.
     */
    post: operations['rotateToken'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/current_user': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * Show the user of the request's credential
     * @description Needs the action `account:read`.
     */
    get: operations['showCurrentUser'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/current_customer': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * Show the customer of the request's credential
     * @description Needs the action `account:read`.
     */
    get: operations['showCurrentCustomer'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/verify': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * Show the request's credential, its owner and its services
     * @description Needs the action `account:read`.
     */
    get: operations['verify'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/sudo': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /**
     * Confirm a password
     * @description For five minutes, `POST /tokens` with the same credential needs no login name. It still checks the password. The scopes of a token must allow the action `account:write`.
     */
    post: operations['sudo'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/.well-known/jwks.json': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * Show the keys that verify assertions
     * @description A JSON Web Key Set (RFC 7517). It may be cached as long as `Cache-Control` allows.
     */
    get: operations['showSigningKeys'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/_latchkey/openapi.json': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Show this document */
    get: operations['showInterface'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/_latchkey/sessions': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** List the user's own sessions */
    get: operations['listSessions'];
    put?: never;
    post?: never;
    /** End all of the user's sessions except the one of the request */
    delete: operations['endOtherSessions'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/_latchkey/sessions/{id}': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    post?: never;
    /** End one of the user's own sessions */
    delete: operations['endSession'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/_latchkey/session': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Show the logged-in user, with permissions and limits */
    get: operations['describeCaller'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/_latchkey/people': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * List the users of the user's own customer
     * @description Needs the action `customer_token:read`.
     */
    get: operations['listPeople'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
}
export type webhooks = Record<string, never>;
export interface components {
  schemas: {
    Caller: {
      user: {
        id: string;
        name: string;
        login: string;
        /** @description A role of the policy (`policy.roles`) */
        role: string;
        customer_id: string;
      };
      customer: {
        id: string;
        name: string;
      };
      session: {
        /** @description Seconds until the session ends, even if it is active */
        ends_in: number;
        /** @description Seconds without a request after which it ends */
        idle_timeout: number;
      };
      /** @description Whether the account asks for a one-time password */
      one_time_password: boolean;
      /** @description The OpenID Connect provider of the login; absent after a login by password */
      provider?: {
        name: string;
        title: string;
        /** @description Whether the user logged in there again within the last five minutes */
        confirmed: boolean;
      };
      may: {
        list_tokens: boolean;
        revoke_tokens: boolean;
        list_customer_tokens: boolean;
        revoke_customer_tokens: boolean;
      };
      /** @description What tokens can be restricted to; empty when any service id is accepted */
      services: {
        id: string;
        name: string;
      }[];
      scopes: {
        name: string;
        title: string;
        description: string;
      }[];
      /** @description How long a rotated token is still accepted */
      rotation: {
        overlap: number;
        max_overlap: number;
      };
      /** @description Seconds that a token may last; null when there is no limit */
      max_lifetime: number | null;
      /** @description Seconds before the expiry of a token from which it is marked */
      warn_before: number;
      /** @description Name of the header that carries a token */
      key_field: string;
      /** @description The origin for clients; null for that of the page */
      public_url: string | null;
    };
    CreateTokenRequest: {
      /** @description The login name of the user whom the token is for; not needed after `POST /sudo`, and not needed with a session from a fresh login at an OpenID Connect provider */
      username?: string;
      /** @description At most 1024 bytes; not needed with a session from a fresh login at an OpenID Connect provider */
      password?: string;
      /**
       * @description What the token is for: 1 to 255 characters without control and invisible characters
       * @default
       */
      name: string;
      /**
       * @description One scope, or several separated by spaces
       * @default global
       */
      scope: string;
      /** @description Restricts the token to these services */
      'services[]'?: string[];
      /** @description The same as `services[]` */
      services?: string[];
      /** @description Restricts the token to this service; adds to `services[]` */
      service_id?: string;
      /**
       * Format: date-time
       * @description ISO 8601 with `Z` or an offset; the token is refused from that second on
       */
      expires_at?: string;
      /**
       * @description Requests that the token may make per period of 1s to 31d
       * @example 600/1m
       */
      rate?: string;
      /** @description Addresses and ranges of the clients that may use the token */
      'addresses[]'?: string[];
      /** @description The same as `addresses[]` */
      addresses?: string[];
      /**
       * @description `true`: the token is refused until it is resumed
       * @enum {string}
       */
      suspended?: 'true' | 'false';
    };
    CreatedToken: {
      /** @description Identifies the token; not a secret */
      id: string;
      /** @description The owner */
      user_id: string;
      customer_id: string;
      /** @description The service that the token is restricted to, or the last of several; null when it is not restricted */
      service_id: string | null;
      /** @description All services that the token is restricted to; empty when it is not restricted */
      services: string[];
      name: string;
      /** @description Its scopes, separated by spaces */
      scope: string;
      scopes: string[];
      /**
       * Format: date-time
       * @description UTC, ISO 8601, whole seconds
       * @example 2030-01-31T12:00:00+00:00
       */
      created_at: string;
      /**
       * Format: date-time
       * @description UTC, ISO 8601, whole seconds
       * @example 2030-01-31T12:00:00+00:00
       */
      updated_at: string;
      /** @description The token is refused from this second on; null when it does not expire */
      expires_at: string | null;
      /** @description The token that it replaced; only if a rotation made it */
      predecessor_id?: string;
      /**
       * @description Present while the token is suspended
       * @constant
       */
      suspended?: true;
      /** @description The request rate of the token; absent when it has none of its own */
      rate?: string;
      /** @description Addresses and ranges that it is accepted from; absent when it has none of its own */
      addresses?: string[];
      /** @description The secret. No other response ever contains it */
      access_token: string;
    };
    CurrentCustomer: {
      id: string;
      name: string;
    };
    CurrentUser: {
      id: string;
      name: string;
      login: string;
      customer_id: string;
      role: string;
      locked: boolean;
      two_factor_auth_enabled: boolean;
      two_factor_setup_required: boolean;
      limit_services: boolean;
      require_new_password: boolean;
      /**
       * Format: date-time
       * @description UTC, ISO 8601, whole seconds
       * @example 2030-01-31T12:00:00+00:00
       */
      created_at: string;
      /**
       * Format: date-time
       * @description UTC, ISO 8601, whole seconds
       * @example 2030-01-31T12:00:00+00:00
       */
      updated_at: string;
      deleted_at: null;
    };
    FleetReceipt: {
      /** @description How many sidecars were up when the token was revoked */
      sidecars: number;
      /** @description Milliseconds until the slowest confirmation that the token was dropped; null when there is none */
      slowest_ms: number | null;
      /** @description The sidecars that have not confirmed that they dropped the token */
      missing?: {
        /** @description Host and port */
        name: string;
        /** @description Milliseconds between its latest heartbeat and the revocation */
        heartbeat_age_ms: number;
      }[];
    };
    LoggedIn: {
      user: {
        id: string;
        name: string;
        login: string;
        /** @description A role of the policy (`policy.roles`) */
        role: string;
        customer_id: string;
      };
      customer: {
        id: string;
        name: string;
      };
    };
    LoginRequest: {
      /** @description The login name */
      user: string;
      /** @description At most 1024 bytes */
      password: string;
    };
    OpenApi: {
      openapi: string;
    } & {
      [key: string]: unknown;
    };
    Person: {
      id: string;
      name: string;
      login: string;
    };
    Problem: {
      /** @description What kind of error it is */
      msg: string;
      /** @description What exactly is wrong, for people */
      detail: string;
    };
    RevokeTokensRequest: {
      /** @description All of them are revoked, or none */
      data: {
        /** @constant */
        type?: 'token';
        /** @description The id of the token, not its secret */
        id: string;
      }[];
    };
    RotateTokenRequest: {
      /** @description Seconds for which the old token is still accepted; 0 ends it at once */
      overlap?: number | string;
    };
    Session: {
      /** @description Identifies the session; not the value of the cookie */
      id: string;
      /**
       * Format: date-time
       * @description UTC, ISO 8601, whole seconds
       * @example 2030-01-31T12:00:00+00:00
       */
      created_at: string;
      /**
       * Format: date-time
       * @description Its last activity, at most a minute late
       * @example 2030-01-31T12:00:00+00:00
       */
      last_seen_at: string;
      /**
       * Format: date-time
       * @description The latest time at which it ends
       * @example 2030-01-31T12:00:00+00:00
       */
      ends_at: string;
      /** @description IP address of the client that last used it */
      ip: string;
      /** @description User-Agent of the client that last used it; null when it sent none */
      user_agent: string | null;
      /** @description Whether it is the session of the request */
      current: boolean;
      /** @description The OpenID Connect provider of its login; absent after a login by password */
      provider?: string;
    };
    SigningKeys: {
      keys: {
        kty: string;
        crv: string;
        x: string;
        y?: string;
        kid: string;
        /** @enum {string} */
        alg: 'EdDSA' | 'ES256';
        /** @constant */
        use: 'sig';
      }[];
    };
    SudoGranted: {
      /**
       * Format: date-time
       * @description Until then, POST /tokens accepts the same credential in place of a login name
       * @example 2030-01-31T12:00:00+00:00
       */
      expiry_time: string;
    };
    SudoRequest: {
      /** @description The login name; without it, the password is that of the request's credential */
      username?: string;
      /** @description At most 1024 bytes; not needed with a session from a fresh login at an OpenID Connect provider */
      password?: string;
    };
    Token: {
      /** @description Identifies the token; not a secret */
      id: string;
      /** @description The owner */
      user_id: string;
      customer_id: string;
      /** @description The service that the token is restricted to, or the last of several; null when it is not restricted */
      service_id: string | null;
      /** @description All services that the token is restricted to; empty when it is not restricted */
      services: string[];
      name: string;
      /** @description Its scopes, separated by spaces */
      scope: string;
      scopes: string[];
      /**
       * Format: date-time
       * @description UTC, ISO 8601, whole seconds
       * @example 2030-01-31T12:00:00+00:00
       */
      created_at: string;
      /**
       * Format: date-time
       * @description UTC, ISO 8601, whole seconds
       * @example 2030-01-31T12:00:00+00:00
       */
      updated_at: string;
      /** @description The token is refused from this second on; null when it does not expire */
      expires_at: string | null;
      /** @description The token that it replaced; only if a rotation made it */
      predecessor_id?: string;
      /**
       * @description Present while the token is suspended
       * @constant
       */
      suspended?: true;
      /** @description The request rate of the token; absent when it has none of its own */
      rate?: string;
      /** @description Addresses and ranges that it is accepted from; absent when it has none of its own */
      addresses?: string[];
      /** @description Its last use; null when it was never used */
      last_seen_at: string | null;
      /** @description The same as `last_seen_at` */
      last_used_at: string | null;
      ip: string | null;
      /** @description User-Agent of the client that last used it; null when it sent none */
      user_agent: string | null;
    };
    Unauthenticated: {
      msg: string;
    };
    UpdateTokenForm: {
      /** @enum {string} */
      suspended?: 'true' | 'false';
      /** @example 600/1m */
      rate?: string;
      'addresses[]'?: string[];
      addresses?: string[];
    };
    UpdateTokenRequest: {
      suspended?: boolean;
      rate?: string | null;
      addresses?: string[] | null;
    };
    Verified: {
      customer: {
        id: string;
        name: string;
      };
      user: {
        id: string;
        name: string;
        login: string;
      };
      /** @description Names by id */
      services: {
        [key: string]: string;
      };
      /** @description null for a session */
      token: {
        id: string;
        name: string;
        /**
         * Format: date-time
         * @description UTC, ISO 8601, whole seconds
         * @example 2030-01-31T12:00:00+00:00
         */
        created_at: string;
        expires_at: string | null;
        scope: string;
      } | null;
    };
  };
  responses: {
    /** @description The request is ambiguous or malformed */
    Malformed: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Problem'];
      };
    };
    /** @description The credential is missing or invalid */
    Unauthenticated: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        'WWW-Authenticate': components['headers']['WWW-Authenticate'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Unauthenticated'];
      };
    };
    /** @description The role or the scope does not allow it, the kind of credential is wrong, or the request came from another site */
    Forbidden: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Problem'];
      };
    };
    /** @description No such record exists */
    NotFound: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Problem'];
      };
    };
    /** @description The request took too long to arrive */
    TooSlow: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Problem'];
      };
    };
    /** @description The body is too large */
    TooLarge: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Problem'];
      };
    };
    /** @description The request target is too long */
    TargetTooLong: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Problem'];
      };
    };
    /** @description `Expect` asks for more than `100-continue` */
    ExpectationFailed: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Problem'];
      };
    };
    /** @description Too many failed logins, or the token has reached its request rate */
    Throttled: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        'Retry-After': components['headers']['Retry-After'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Problem'];
      };
    };
    /** @description The header fields are too large */
    HeadTooLarge: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Problem'];
      };
    };
    /** @description Internal error; the log has the cause */
    Fault: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Problem'];
      };
    };
    /** @description The store, the account source or a required audit log is unavailable, or the server is overloaded */
    Unavailable: {
      headers: {
        'X-Request-Id': components['headers']['X-Request-Id'];
        'Cache-Control': components['headers']['Cache-Control'];
        'Retry-After': components['headers']['Retry-After'];
        [name: string]: unknown;
      };
      content: {
        'application/json': components['schemas']['Problem'];
      };
    };
  };
  parameters: {
    /** @description With `fleet`, the response is sent once every sidecar has dropped the token and closed its streams */
    Wait: 'fleet';
    /** @description The one-time password of an account with two-factor authentication */
    OneTimePassword: string;
  };
  requestBodies: never;
  headers: {
    /** @description Identifies the request in the log, in the audit log and to the upstream */
    'X-Request-Id': string;
    /** @description `no-store`, except for public keys, which may be cached */
    'Cache-Control': string;
    /** @description Seconds to wait before trying again */
    'Retry-After': number;
    /** @description The accepted authentication schemes; with `error` if a Bearer token is invalid */
    'WWW-Authenticate': string;
    /** @description The session cookie; on logout, one that removes it */
    'Set-Cookie': string;
    /** @description Where the browser continues */
    Location: string;
    /** @description How many tokens that came from it by rotation were revoked, suspended or resumed with it; absent for none */
    'Latchkey-Further-Tokens': number;
  };
  pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
  login: {
    parameters: {
      query?: never;
      header?: {
        /** @description The one-time password of an account with two-factor authentication */
        'Service-OTP'?: components['parameters']['OneTimePassword'];
      };
      path?: never;
      cookie?: never;
    };
    requestBody: {
      content: {
        'application/json': components['schemas']['LoginRequest'];
        'application/x-www-form-urlencoded': components['schemas']['LoginRequest'];
      };
    };
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Set-Cookie': components['headers']['Set-Cookie'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['LoggedIn'];
        };
      };
      /** @description `invalid_request`, `account_locked`, `2fa.verify`; The request is ambiguous or malformed */
      400: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json':
            | {
                /**
                 * @description The same as `code`
                 * @enum {string}
                 */
                msg: 'invalid_request' | 'account_locked' | '2fa.verify';
                /**
                 * @description What is wrong, for programs
                 * @enum {string}
                 */
                code: 'invalid_request' | 'account_locked' | '2fa.verify';
                /** @description What exactly is wrong, for people */
                detail: string;
              }
            | components['schemas']['Problem'];
        };
      };
      /** @description `invalid_grant` */
      401: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': {
            /**
             * @description The same as `code`
             * @enum {string}
             */
            msg: 'invalid_grant';
            /**
             * @description What is wrong, for programs
             * @enum {string}
             */
            code: 'invalid_grant';
            /** @description What exactly is wrong, for people */
            detail: string;
          };
        };
      };
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  logout: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      204: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Set-Cookie': components['headers']['Set-Cookie'];
          Location: components['headers']['Location'];
          [name: string]: unknown;
        };
        content?: never;
      };
      /** @description To the identity provider or the web page, if `Accept` names HTML */
      303: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          Location: components['headers']['Location'];
          [name: string]: unknown;
        };
        content?: never;
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  listTokens: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Token'][];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  createToken: {
    parameters: {
      query?: never;
      header?: {
        /** @description The one-time password of an account with two-factor authentication */
        'Service-OTP'?: components['parameters']['OneTimePassword'];
      };
      path?: never;
      cookie?: never;
    };
    requestBody: {
      content: {
        'application/json': components['schemas']['CreateTokenRequest'];
        'application/x-www-form-urlencoded': components['schemas']['CreateTokenRequest'];
      };
    };
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['CreatedToken'];
        };
      };
      /** @description `invalid_request`, `invalid_grant`, `account_locked`, `2fa.verify`, `invalid_scope`; The request is ambiguous or malformed */
      400: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json':
            | {
                /**
                 * @description The same as `code`
                 * @enum {string}
                 */
                msg: 'invalid_request' | 'invalid_grant' | 'account_locked' | '2fa.verify' | 'invalid_scope';
                /**
                 * @description What is wrong, for programs
                 * @enum {string}
                 */
                code: 'invalid_request' | 'invalid_grant' | 'account_locked' | '2fa.verify' | 'invalid_scope';
                /** @description What exactly is wrong, for people */
                detail: string;
              }
            | components['schemas']['Problem'];
        };
      };
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      /** @description `Unprocessable Entity` */
      422: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': {
            /**
             * @description The same as `code`
             * @enum {string}
             */
            msg: 'Unprocessable Entity';
            /**
             * @description What is wrong, for programs
             * @enum {string}
             */
            code: 'Unprocessable Entity';
            /** @description What exactly is wrong, for people */
            detail: string;
          };
        };
      };
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  revokeTokens: {
    parameters: {
      query?: {
        /** @description With `fleet`, the response is sent once every sidecar has dropped the token and closed its streams */
        wait?: components['parameters']['Wait'];
      };
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody: {
      content: {
        'application/json': components['schemas']['RevokeTokensRequest'];
        'application/vnd.api+json': components['schemas']['RevokeTokensRequest'];
      };
    };
    responses: {
      /** @description Done, and every sidecar has dropped it (`wait=fleet`) */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Latchkey-Further-Tokens': components['headers']['Latchkey-Further-Tokens'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['FleetReceipt'];
        };
      };
      /** @description Done, and some sidecars have not confirmed that (`wait=fleet`) */
      202: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Latchkey-Further-Tokens': components['headers']['Latchkey-Further-Tokens'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['FleetReceipt'];
        };
      };
      /** @description Done */
      204: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Latchkey-Further-Tokens': components['headers']['Latchkey-Further-Tokens'];
          [name: string]: unknown;
        };
        content?: never;
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      404: components['responses']['NotFound'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      /** @description `Unprocessable Entity` */
      422: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': {
            /**
             * @description The same as `code`
             * @enum {string}
             */
            msg: 'Unprocessable Entity';
            /**
             * @description What is wrong, for programs
             * @enum {string}
             */
            code: 'Unprocessable Entity';
            /** @description What exactly is wrong, for people */
            detail: string;
          };
        };
      };
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  listCustomerTokens: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        id: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Token'][];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  showOwnToken: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Token'];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      404: components['responses']['NotFound'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  revokeOwnToken: {
    parameters: {
      query?: {
        /** @description With `fleet`, the response is sent once every sidecar has dropped the token and closed its streams */
        wait?: components['parameters']['Wait'];
      };
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done, and every sidecar has dropped it (`wait=fleet`) */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Latchkey-Further-Tokens': components['headers']['Latchkey-Further-Tokens'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['FleetReceipt'];
        };
      };
      /** @description Done, and some sidecars have not confirmed that (`wait=fleet`) */
      202: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Latchkey-Further-Tokens': components['headers']['Latchkey-Further-Tokens'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['FleetReceipt'];
        };
      };
      /** @description Done */
      204: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Latchkey-Further-Tokens': components['headers']['Latchkey-Further-Tokens'];
          [name: string]: unknown;
        };
        content?: never;
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      404: components['responses']['NotFound'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      /** @description `Unprocessable Entity` */
      422: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': {
            /**
             * @description The same as `code`
             * @enum {string}
             */
            msg: 'Unprocessable Entity';
            /**
             * @description What is wrong, for programs
             * @enum {string}
             */
            code: 'Unprocessable Entity';
            /** @description What exactly is wrong, for people */
            detail: string;
          };
        };
      };
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  showToken: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        id: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Token'];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      404: components['responses']['NotFound'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  revokeToken: {
    parameters: {
      query?: {
        /** @description With `fleet`, the response is sent once every sidecar has dropped the token and closed its streams */
        wait?: components['parameters']['Wait'];
      };
      header?: never;
      path: {
        id: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done, and every sidecar has dropped it (`wait=fleet`) */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Latchkey-Further-Tokens': components['headers']['Latchkey-Further-Tokens'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['FleetReceipt'];
        };
      };
      /** @description Done, and some sidecars have not confirmed that (`wait=fleet`) */
      202: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Latchkey-Further-Tokens': components['headers']['Latchkey-Further-Tokens'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['FleetReceipt'];
        };
      };
      /** @description Done */
      204: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Latchkey-Further-Tokens': components['headers']['Latchkey-Further-Tokens'];
          [name: string]: unknown;
        };
        content?: never;
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      404: components['responses']['NotFound'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      /** @description `Unprocessable Entity` */
      422: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': {
            /**
             * @description The same as `code`
             * @enum {string}
             */
            msg: 'Unprocessable Entity';
            /**
             * @description What is wrong, for programs
             * @enum {string}
             */
            code: 'Unprocessable Entity';
            /** @description What exactly is wrong, for people */
            detail: string;
          };
        };
      };
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  updateToken: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        id: string;
      };
      cookie?: never;
    };
    requestBody: {
      content: {
        'application/json': components['schemas']['UpdateTokenRequest'];
        'application/merge-patch+json': components['schemas']['UpdateTokenRequest'];
        'application/x-www-form-urlencoded': components['schemas']['UpdateTokenForm'];
      };
    };
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          'Latchkey-Further-Tokens': components['headers']['Latchkey-Further-Tokens'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Token'];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      404: components['responses']['NotFound'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      /** @description `Unprocessable Entity` */
      422: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': {
            /**
             * @description The same as `code`
             * @enum {string}
             */
            msg: 'Unprocessable Entity';
            /**
             * @description What is wrong, for programs
             * @enum {string}
             */
            code: 'Unprocessable Entity';
            /** @description What exactly is wrong, for people */
            detail: string;
          };
        };
      };
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  rotateOwnToken: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: {
      content: {
        'application/json': components['schemas']['RotateTokenRequest'];
        'application/x-www-form-urlencoded': components['schemas']['RotateTokenRequest'];
      };
    };
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['CreatedToken'];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      404: components['responses']['NotFound'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      /** @description `Unprocessable Entity` */
      422: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': {
            /**
             * @description The same as `code`
             * @enum {string}
             */
            msg: 'Unprocessable Entity';
            /**
             * @description What is wrong, for programs
             * @enum {string}
             */
            code: 'Unprocessable Entity';
            /** @description What exactly is wrong, for people */
            detail: string;
          };
        };
      };
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  rotateToken: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        id: string;
      };
      cookie?: never;
    };
    requestBody?: {
      content: {
        'application/json': components['schemas']['RotateTokenRequest'];
        'application/x-www-form-urlencoded': components['schemas']['RotateTokenRequest'];
      };
    };
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['CreatedToken'];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      404: components['responses']['NotFound'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      /** @description `Unprocessable Entity` */
      422: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': {
            /**
             * @description The same as `code`
             * @enum {string}
             */
            msg: 'Unprocessable Entity';
            /**
             * @description What is wrong, for programs
             * @enum {string}
             */
            code: 'Unprocessable Entity';
            /** @description What exactly is wrong, for people */
            detail: string;
          };
        };
      };
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  showCurrentUser: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['CurrentUser'];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  showCurrentCustomer: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['CurrentCustomer'];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  verify: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Verified'];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  sudo: {
    parameters: {
      query?: never;
      header?: {
        /** @description The one-time password of an account with two-factor authentication */
        'Service-OTP'?: components['parameters']['OneTimePassword'];
      };
      path?: never;
      cookie?: never;
    };
    requestBody: {
      content: {
        'application/json': components['schemas']['SudoRequest'];
        'application/x-www-form-urlencoded': components['schemas']['SudoRequest'];
      };
    };
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['SudoGranted'];
        };
      };
      /** @description `invalid_request`, `account_locked`, `2fa.verify`; The request is ambiguous or malformed */
      400: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json':
            | {
                /**
                 * @description The same as `code`
                 * @enum {string}
                 */
                msg: 'invalid_request' | 'account_locked' | '2fa.verify';
                /**
                 * @description What is wrong, for programs
                 * @enum {string}
                 */
                code: 'invalid_request' | 'account_locked' | '2fa.verify';
                /** @description What exactly is wrong, for people */
                detail: string;
              }
            | components['schemas']['Problem'];
        };
      };
      401: components['responses']['Unauthenticated'];
      /** @description `invalid_grant`; The role or the scope does not allow it, the kind of credential is wrong, or the request came from another site */
      403: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json':
            | {
                /**
                 * @description The same as `code`
                 * @enum {string}
                 */
                msg: 'invalid_grant';
                /**
                 * @description What is wrong, for programs
                 * @enum {string}
                 */
                code: 'invalid_grant';
                /** @description What exactly is wrong, for people */
                detail: string;
              }
            | components['schemas']['Problem'];
        };
      };
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  showSigningKeys: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['SigningKeys'];
        };
      };
      400: components['responses']['Malformed'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  showInterface: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['OpenApi'];
        };
      };
      400: components['responses']['Malformed'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  listSessions: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Session'][];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  endOtherSessions: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      204: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content?: never;
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  endSession: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        id: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      204: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content?: never;
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      404: components['responses']['NotFound'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  describeCaller: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Caller'];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
  listPeople: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Done */
      200: {
        headers: {
          'X-Request-Id': components['headers']['X-Request-Id'];
          'Cache-Control': components['headers']['Cache-Control'];
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Person'][];
        };
      };
      400: components['responses']['Malformed'];
      401: components['responses']['Unauthenticated'];
      403: components['responses']['Forbidden'];
      408: components['responses']['TooSlow'];
      413: components['responses']['TooLarge'];
      414: components['responses']['TargetTooLong'];
      417: components['responses']['ExpectationFailed'];
      429: components['responses']['Throttled'];
      431: components['responses']['HeadTooLarge'];
      500: components['responses']['Fault'];
      503: components['responses']['Unavailable'];
    };
  };
}
