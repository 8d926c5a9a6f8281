import { includesRanges, parseRange } from '../util/addresses.js';
import type { Subject } from '../domain/credential.js';
import { includesRate, parseRate, type Token } from '../domain/token.js';
import { noToken, type Refusal } from '../domain/refusal.js';
import type { Tokens } from '../accounts/tokens.js';
import { limitedDetail, type Policy, policyRefusal } from '../policy/decide.js';
import { type DefaultLimits, NO_DEFAULTS } from './authenticate.js';

/** Who owns a record: the caller, or another user of the same customer. */
export type Owner = 'self' | 'other';

/** Decides about records that endpoints name by id: others' records require a separate action. */
export class Ownership {
  readonly #tokens: Pick<Tokens, 'trace'>;
  readonly #policy: Policy;
  readonly #defaults: DefaultLimits;

  constructor(tokens: Pick<Tokens, 'trace'>, policy: Policy, defaults = NO_DEFAULTS) {
    this.#tokens = tokens;
    this.#policy = policy;
    this.#defaults = defaults;
  }

  /**
   * Returns who owns a token. Refuses one that does not exist or belongs to another customer.
   * @param read the token, if that was read
   */
  async ofToken(id: string, subject: Subject, read?: ReturnType<Tokens['read']>): Promise<Owner | Refusal> {
    const found = await this.#tokens.trace(id, subject.user.customerId, read);
    if (found === undefined) return noToken(id);
    return found.token.userId === subject.user.id ? 'self' : 'other';
  }

  /** Refuses another customer's token, and another user's unless the caller may perform `action`. */
  async refuseToken(id: string, subject: Subject, action: string): Promise<Refusal | undefined> {
    const owner = await this.ofToken(id, subject);
    if (owner === 'self') return undefined;
    return owner === 'other' ? this.refuseOthers(subject, action) : owner;
  }

  /** Refuses to issue another user's token, or one with more permissions than the caller has. */
  refuseIssuing(subject: Subject, token: Token): Refusal | undefined {
    if (token.userId !== subject.user.id)
      return { refusal: 'other_user', detail: 'Only the owner of a token can rotate it; revoke it instead' };
    if (subject.credential === 'session') return undefined;
    // The limits of tokens do not apply to JWTs.
    const isLimited =
      subject.credential === 'jwt' ||
      includesLimits(limitsOf(subject.token, this.#defaults), limitsOf(token, this.#defaults));
    if (isLimited && this.#policy.tokenIncludes(subject.token, token)) return undefined;
    return { refusal: 'scope', action: 'token:write', detail: 'The calling token has fewer permissions than this token' };
  } // prettier-ignore

  /** Refuses another customer. A customer's records never count as the caller's own. */
  ofCustomer(id: string, subject: Subject): Owner | Refusal {
    return id === subject.user.customerId
      ? 'other'
      : { refusal: 'other_customer', detail: 'The tokens of another customer cannot be listed' };
  }

  /** Refuses others' records unless the caller may perform `action`; a service-limited token never may. */
  refuseOthers(subject: Subject, action: string): Refusal | undefined {
    if (subject.credential !== 'session' && subject.token.services.length > 0) {
      return { refusal: 'service_limited', action, detail: limitedDetail(action) };
    }
    return policyRefusal(this.#policy.decide(subject, action, null), action);
  }
}

/** A token's effective limits: its own, or else the defaults. */
function limitsOf({ restrictions }: Token, defaults: DefaultLimits): DefaultLimits {
  return {
    rate: restrictions?.rate ?? defaults.rate,
    addresses: restrictions?.addresses ?? defaults.addresses,
  };
}

/** Whether narrow limits allow no more than wide ones. When in doubt, returns false. */
function includesLimits(wide: DefaultLimits, narrow: DefaultLimits): boolean {
  if (wide.rate !== null) {
    const [a, b] = [parseRate(wide.rate), parseRate(narrow.rate ?? '')];
    if (a === undefined || b === undefined || !includesRate(a, b)) return false;
  }
  if (wide.addresses === null) return true;
  const [a, b] = [wide.addresses, narrow.addresses].map((texts) => texts?.map(parseRange));
  return (
    a !== undefined && b !== undefined && b.every((range) => range !== undefined && includesRanges(a, range))
  );
}
