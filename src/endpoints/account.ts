import { formatTime } from '../domain/time.js';
import type { User } from '../domain/user.js';
import type { Store } from '../store/store.js';
import { type Handler, subjectOf } from './call.js';
import type { CurrentCustomer, CurrentUser, Verified } from './schema/answers.js';

/** The endpoints that tell a client whose credential it has. */
export class AccountEndpoints {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** GET /current_user */
  showUser: Handler<CurrentUser> = async ({ subject }) => ({
    status: 200,
    json: userObject(subjectOf(subject).user),
  });

  /** GET /current_customer */
  showCustomer: Handler<CurrentCustomer> = async ({ subject }) => ({
    status: 200,
    json: await this.#customerObject(subjectOf(subject).user),
  });

  /** GET /verify: the credential that asks, with whose it is and what it reaches. */
  verify: Handler<Verified> = async ({ subject }) => {
    const known = subjectOf(subject);
    const { user } = known;
    const token = known.credential === 'session' ? null : known.token;
    return {
      status: 200,
      json: {
        customer: await this.#customerObject(user),
        user: { id: user.id, name: user.name, login: user.login },
        services: await this.#namesOfServices(user.customerId, token?.services ?? []),
        token: token === null ? null : {
          id: token.id,
          name: token.name,
          created_at: formatTime(token.createdAt),
          expires_at: token.expiresAt === null ? null : formatTime(token.expiresAt),
          scope: token.scopes.join(' '),
        },
      } satisfies Verified,
    };
  }; // prettier-ignore

  async #customerObject({ customerId }: User) {
    const customer = await this.#store.getCustomer(customerId);
    return { id: customerId, name: customer?.name ?? '' };
  }

  /** Names by id, of the services that a token is limited to, or else of all. One that the directory lacks goes by its id. */
  async #namesOfServices(customerId: string, limit: readonly string[]): Promise<Record<string, string>> {
    const names = (await this.#store.listServices(customerId)).map(({ id, name }) => [id, name] as const);
    if (limit.length === 0) return Object.fromEntries(names);
    const known = new Map(names);
    return Object.fromEntries(limit.map((id) => [id, known.get(id) ?? id]));
  }
}

/** A user as clients of such interfaces know one. What Latchkey has no notion of is what it is for everybody. */
function userObject(user: User): CurrentUser {
  return {
    id: user.id,
    name: user.name,
    login: user.login,
    customer_id: user.customerId,
    role: user.role,
    locked: user.locked,
    two_factor_auth_enabled: user.otpSecret !== null,
    two_factor_setup_required: false,
    limit_services: false,
    require_new_password: false,
    created_at: formatTime(user.createdAt),
    updated_at: formatTime(user.updatedAt),
    deleted_at: null,
  };
}
