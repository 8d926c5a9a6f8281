/** Which credentials the list and delete endpoints take (`interface.token_endpoints`). */
export type TokenEndpointsTake = 'session' | 'session_or_token';

/** One of Latchkey's own endpoints as the policy sees it. */
export interface EndpointRule {
  readonly name: EndpointName;
  /**
   * The credential it takes. Endpoints that check a password in the body take `nothing`, or an `optional` credential: one
   * that is sent has to hold.
   */
  readonly takes: 'nothing' | 'optional' | 'token' | TokenEndpointsTake;
  /**
   * What the path's `:id` names, and so what has to belong to the caller; null when it has none, or when the
   * endpoint looks for it among the caller's own only.
   */
  readonly id: 'customer' | 'token' | null;
  /** The action that somebody else's record asks for, besides the endpoint's own. */
  readonly othersAction: string | null;
  /** Status of a success; null when the body decides it. */
  readonly success: 200 | 204 | null;
}

/** Name of an own endpoint; `endpoints/` has a handler for each. */
export type EndpointName =
  | 'login'
  | 'logout'
  | 'create_token'
  | 'list_tokens'
  | 'list_customer_tokens'
  | 'revoke_tokens'
  | 'show_own_token'
  | 'revoke_own_token'
  | 'show_token'
  | 'revoke_token'
  | 'list_sessions'
  | 'end_session'
  | 'end_other_sessions'
  | 'show_page'
  | 'show_page_asset'
  | 'describe_caller'
  | 'list_people'
  | 'show_signing_keys'
  | 'show_interface'
  | 'show_current_user'
  | 'show_current_customer'
  | 'verify'
  | 'sudo';
