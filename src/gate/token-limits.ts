import type { TokenRates } from '../accounts/token-rates.js';
import { type AddressRange, isInRanges, parseRange } from '../util/addresses.js';
import type { Subject } from '../domain/credential.js';
import type { MaybePromise } from '../util/async.js';
import type { Refusal } from '../domain/refusal.js';
import type { RequestHead } from '../http/head.js';

/** The limits of tokens that have none of their own (`tokens.limits`). */
export interface DefaultLimits {
  readonly rate: string | null;
  readonly addresses: readonly string[] | null;
}

export const NO_DEFAULTS: DefaultLimits = { rate: null, addresses: null };

/** Parsed ranges, with the result for the last address checked: most tokens have one client. */
interface CompiledRanges {
  readonly ranges: readonly AddressRange[];
  address: string;
  isIn: boolean;
}

/** Checks a token's addresses and rate; suspension is part of the credential, to keep it unknown. */
export class TokenLimits {
  readonly #defaults: DefaultLimits | undefined;
  readonly #rates: Pick<TokenRates, 'take'> | null;
  readonly #compiled = new WeakMap<readonly string[], CompiledRanges>();

  /** @param rates null when no requests are counted */
  constructor(defaults: DefaultLimits, rates: Pick<TokenRates, 'take'> | null) {
    const { rate, addresses } = defaults;
    this.#defaults = rate === null && addresses === null ? undefined : defaults;
    this.#rates = rates;
  }

  withoutRate(): TokenLimits {
    return new TokenLimits(this.#defaults ?? NO_DEFAULTS, null);
  }

  /** @param counts whether the rate applies */
  refuse(subject: Subject, { client }: RequestHead, counts: boolean): MaybePromise<Refusal | undefined> {
    if (subject.credential === 'session' || subject.credential === 'jwt') return undefined;
    const { id, rateId, restrictions } = subject.token;
    if (restrictions === undefined && this.#defaults === undefined) return undefined;
    const addresses = restrictions?.addresses ?? this.#defaults?.addresses ?? null;
    if (addresses !== null && !this.#isIn(addresses, client.address)) {
      return { refusal: 'address', detail: `The token is not accepted from the address ${client.address}` };
    }
    const rate = restrictions?.rate ?? this.#defaults?.rate ?? null;
    if (rate === null || this.#rates === null || !counts) return undefined;
    const wait = this.#rates.take(rateId ?? id, rate);
    return typeof wait === 'number' ? refusalOf(wait) : wait.then(refusalOf);
  }

  #isIn(addresses: readonly string[], address: string): boolean {
    let compiled = this.#compiled.get(addresses);
    if (compiled === undefined) {
      const ranges = addresses.map(parseRange).filter((range) => range !== undefined);
      compiled = { ranges, address: '', isIn: false };
      this.#compiled.set(addresses, compiled);
    }
    if (compiled.address !== address) {
      compiled.isIn = isInRanges(compiled.ranges, address);
      compiled.address = address;
    }
    return compiled.isIn;
  }
}

function refusalOf(wait: number): Refusal | undefined {
  return wait === 0 ? undefined : { refusal: 'token_rate', retryAfter: Math.max(1, Math.ceil(wait / 1000)) };
}
