import type { Subject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import type { Tokens } from '../accounts/tokens.js';
import { limitedDetail, type Policy } from '../policy/decide.js';
import { policyRefusal } from './policy-refusal.js';

/** Decides about records that built-in endpoints name by id: one's own are free, others' need an action of their own. */
export class Ownership {
  readonly #tokens: Pick<Tokens, 'get'>;
  readonly #policy: Policy;

  constructor(tokens: Pick<Tokens, 'get'>, policy: Policy) {
    this.#tokens = tokens;
    this.#policy = policy;
  }

  /** Refuses a token that is not there, is another customer's, or is another user's without leave for `action`. */
  async refuseToken(id: string, subject: Subject, action: string): Promise<Refusal | undefined> {
    const found = await this.#tokens.get(id, subject.user.customerId);
    if (found === undefined) return { refusal: 'not_found', detail: `Cannot find token '${id}'` };
    return found.token.userId === subject.user.id ? undefined : this.#refuseOthers(subject, action);
  }

  /** Refuses another customer, and the whole customer without leave for `action`. */
  refuseCustomer(id: string, subject: Subject, action: string): Refusal | undefined {
    if (id !== subject.user.customerId) {
      return { refusal: 'other_customer', detail: 'The tokens of another customer cannot be listed' };
    }
    return this.#refuseOthers(subject, action);
  }

  /** A token that is limited to services reaches its owner's tokens only. */
  #refuseOthers(subject: Subject, action: string): Refusal | undefined {
    if (subject.credential !== 'session' && subject.token.services.length > 0) {
      return { refusal: 'service_limited', action, detail: limitedDetail(action) };
    }
    return policyRefusal(this.#policy.decide(subject, action, null), action);
  }
}
