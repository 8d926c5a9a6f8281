import type { EndpointName } from '../policy/endpoint-rule.js';
import type { AccountEndpoints } from './account.js';
import type { Handler } from './call.js';
import type { PageEndpoints } from './page.js';
import type { Answers } from './schema/answers.js';
import type { SessionEndpoints } from './sessions.js';
import type { TokenEndpoints } from './tokens.js';

/** A handler for each own endpoint, with the body that the interface says it has. */
type Handlers = { readonly [Name in EndpointName]: Handler<Answers[Name]> };

/** What answers each own endpoint. Where they are and what they take is in `policy/own-endpoints`. */
export function endpointHandlers(
  login: Handler<Answers['login']>,
  logout: Handler<Answers['logout']>,
  tokens: TokenEndpoints,
  sessions: SessionEndpoints,
  page: PageEndpoints,
  showSigningKeys: Handler<Answers['show_signing_keys']>,
  account: AccountEndpoints,
  sudo: Handler<Answers['sudo']>,
  showInterface: Handler<Answers['show_interface']>,
): Handlers {
  return {
    login,
    logout,
    create_token: tokens.create,
    list_tokens: tokens.listOwn,
    list_customer_tokens: tokens.listCustomer,
    revoke_tokens: tokens.revokeBulk,
    show_own_token: tokens.showSelf,
    revoke_own_token: tokens.revokeSelf,
    show_token: tokens.show,
    revoke_token: tokens.revoke,
    list_sessions: sessions.list,
    end_session: sessions.end,
    end_other_sessions: sessions.endOthers,
    show_page: page.show,
    show_page_asset: page.showAsset,
    describe_caller: page.describeCaller,
    list_people: page.listPeople,
    show_signing_keys: showSigningKeys,
    show_interface: showInterface,
    show_current_user: account.showUser,
    show_current_customer: account.showCustomer,
    verify: account.verify,
    sudo,
  };
}
