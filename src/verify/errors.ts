const DETAILS = {
  assertion_missing: 'The request has no assertion; send it through Latchkey',
  assertion_repeated: 'The request has several assertions',
  assertion_malformed: 'The assertion is not a signed JSON Web Token',
  assertion_algorithm: 'The assertion is signed with an algorithm that is not accepted',
  assertion_key_unknown: 'The assertion is signed with a key that is not published',
  assertion_signature: 'The signature of the assertion is wrong',
  assertion_issuer: 'The assertion is from another issuer',
  assertion_audience: 'The assertion is for another audience',
  assertion_expired: 'The assertion has expired',
  assertion_not_yet_valid: 'The assertion is from the future; check the clocks',
  assertion_claims: 'A claim of the assertion is missing or malformed',
  assertion_dev: 'The assertion was made for tests by "latchkey mint"',
  assertion_unbound: 'The assertion is not bound to a request; set identity.assertion.bind: request',
  assertion_method: 'The assertion is for a request with another method',
  assertion_target: 'The assertion is for a request with another target',
  assertion_request_id: 'The assertion is for a request with another X-Request-Id',
} as const;

export type RefusalCode = keyof typeof DETAILS;

/** The response body for a refused request. It contains nothing from the request. */
export interface RefusalBody {
  readonly msg: string;
  readonly detail: string;
  readonly code: string;
}

/** Thrown for a request without a valid assertion: 401. */
export class AssertionRefused extends Error {
  override readonly name = 'AssertionRefused';
  readonly status = 401;
  readonly code: RefusalCode;

  constructor(code: RefusalCode) {
    super(DETAILS[code]);
    this.code = code;
  }

  get body(): RefusalBody {
    return { msg: 'The request has no valid assertion', detail: this.message, code: this.code };
  }
}

/** Thrown when no assertion can be verified because the keys cannot be fetched: 503. */
export class KeysUnavailable extends Error {
  override readonly name = 'KeysUnavailable';
  readonly status = 503;
  readonly code = 'keys_unavailable';

  constructor(cause: unknown) {
    super('The keys that verify assertions cannot be fetched', { cause });
  }

  get body(): RefusalBody {
    return { msg: 'Assertions cannot be verified at the moment', detail: this.message, code: this.code };
  }
}
