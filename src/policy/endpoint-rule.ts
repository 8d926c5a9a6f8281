/** A built-in endpoint as the policy sees it. */
export interface EndpointRule {
  readonly name: string;
  /**
   * The credential it takes. Endpoints that check a password in the body take `nothing`, or an `optional` credential: one
   * that is sent has to hold.
   */
  readonly takes: 'nothing' | 'optional' | 'token' | 'session' | 'session_or_token';
  /** Whether it takes a JWT of another issuer, of which the store has no record; of `nothing`: whether it ignores one. */
  readonly takesJwt: boolean;
  /**
   * What the path's `:id` names, and so what has to belong to the caller; null when it has none, or when the
   * endpoint looks for it among the caller's own only.
   */
  readonly id: 'customer' | 'token' | null;
  /** The action that somebody else's record asks for, besides the endpoint's own. */
  readonly othersAction: string | null;
  /** Status of a success; null when the body decides it. */
  readonly success: 200 | 204 | null;
  /** It changes something even where its method is one that reads: then the audit log has to take it. */
  readonly writes: boolean;
}
