import type { Config } from '../config/schema/config.js';
import { digestOf } from '../domain/secret.js';
import type { EpochMs } from '../util/time.js';
import { loginKey } from '../domain/user.js';
import { networkOf, networksOf } from '../util/addresses.js';
import type { AttemptLimit, LoginThrottleStore } from '../store/login-throttle-store.js';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** Allowed failures of a network, as a multiple of an account's: offices share one address. */
const PER_NETWORK = 20;
/** Multiples for the networks of an IPv6 client, narrowest first: wider ones get more. */
const IPV6_TIMES = [PER_NETWORK, 4 * PER_NETWORK, 16 * PER_NETWORK];

/**
 * How long counts are kept, as a multiple of their longest wait.
 *
 * Waiting alone must not reset them.
 */
const FORGET_AFTER_WAITS = 4;

/** Consecutive wrong one-time passwords after which no further one is checked. */
const MAX_CODES = 100;
const CODES_KEPT_MS = 30 * DAY_MS;

/** How long an address from which an account logged in is remembered. */
const KNOWN_MS = 30 * DAY_MS;

/**
 * Maximum logins of one account and from one network per window, successful ones included.
 *
 * It bounds the number of sessions.
 */
const WINDOW_MS = 5 * MINUTE_MS;
const PER_ACCOUNT_IN_WINDOW = 1_000;
const PER_NETWORK_IN_WINDOW = 10_000;

/** The number of free guesses and the longest wait. */
export type ThrottleSettings = Pick<Config['login'], 'max_failures' | 'lockout'>;

/** The parts of a login attempt by which it is counted. */
export interface Attempted {
  readonly login: string;
  /** IP address of the client. */
  readonly address: string;
  /** Whether the attempt includes a one-time password. */
  readonly hasCode: boolean;
}

/**
 * How a reserved attempt ended.
 *
 * `not_checked` and `right_password`: nothing was guessed. `wrong_password`: a password was guessed,
 * and no one-time password was checked. `wrong_code`: a one-time password was guessed. `succeeded`:
 * the login succeeded.
 */
export type AttemptOutcome = 'not_checked' | 'right_password' | 'wrong_password' | 'wrong_code' | 'succeeded';

/** An attempt that already counts as a failure. */
export interface Reservation {
  /**
   * Takes the attempt out of the counts of what it did not guess.
   *
   * An attempt that is never settled stays counted.
   */
  settle(outcome: AttemptOutcome, now: EpochMs): Promise<void>;
  /** Returns the seconds until the next attempt, after this one is settled; 0 if there is no wait. */
  nextWait(now: EpochMs): Promise<number>;
}

/**
 * Slows down password guessing.
 *
 * After `max_failures` failed logins of an account, each further failure doubles the wait, from one
 * second up to `lockout`. The same applies to the client's network, with a larger allowance.
 *
 * An attempt is counted before its password is checked, and removed from the count if the password
 * was right. Unknown accounts are counted like known ones, so that responses do not reveal which
 * accounts exist. An address that logged in to an account before has its own count for it, so that
 * strangers cannot lock a person out. Wrong one-time passwords are counted separately, because
 * whoever gets that far knows the password.
 */
export class LoginThrottle {
  readonly #store: LoginThrottleStore;
  readonly #settings: ThrottleSettings;

  constructor(store: LoginThrottleStore, settings: ThrottleSettings) {
    this.#store = store;
    this.#settings = settings;
  }

  /** Returns the seconds until the next attempt is allowed; 0 if it is now. Counts nothing. */
  async secondsToWait(attempted: Attempted, now: EpochMs): Promise<number> {
    const counts = await this.#countsOf(attempted, now);
    return seconds(await this.#store.blockedUntil(counts.limits, now), now);
  }

  /** Counts an attempt. Returns the seconds to wait instead if it is not allowed yet. */
  async reserve(attempted: Attempted, now: EpochMs): Promise<Reservation | number> {
    const { account, networks, code, limits } = await this.#countsOf(attempted, now);
    const until = await this.#store.reserve(limits, now);
    if (until > now) return seconds(until, now);
    const released = networks.map(({ key }) => key);
    return {
      settle: async (outcome, at) => {
        switch (outcome) {
          case 'not_checked':
          case 'right_password':
            return this.#store.settle({ clear: [], release: [account.key, ...released, ...code] }, at);
          case 'wrong_password':
            // Or anyone could use up the codes of an account without its password.
            if (code.length > 0) await this.#store.settle({ clear: [], release: code }, at);
            return;
          case 'wrong_code':
            return this.#store.settle({ clear: [], release: [account.key] }, at);
          case 'succeeded': {
            const remember = { ...knownAddress(attempted), until: at + KNOWN_MS };
            return this.#store.settle({ clear: [account.key, ...code], release: released, remember }, at);
          }
        }
      },
      nextWait: (at) => this.secondsToWait(attempted, at),
    };
  }

  async #countsOf(attempted: Attempted, now: EpochMs) {
    const { max_failures: free } = this.#settings;
    const { account: login, address } = knownAddress(attempted);
    const known = (await this.#store.listKnownAddresses(login, now)).includes(address);
    const account = this.#failures(known ? knownKey(login, address) : accountKey(login), free);
    const networks = networkFailures('address:', attempted.address, this.#settings);
    const codes = attempted.hasCode ? [this.#wrongCodes(login)] : [];
    const rates = [rate(`logins:${login}`, PER_ACCOUNT_IN_WINDOW), networkRate('logins from ', attempted.address)];
    return { account, networks, code: codes.map(({ key }) => key), limits: [account, ...networks, ...codes, ...rates] };
  } // prettier-ignore

  #failures(key: string, free: number): AttemptLimit {
    return failures(key, free, this.#settings);
  }

  #wrongCodes(login: string): AttemptLimit {
    const { max_failures: free, lockout: longestWait } = this.#settings;
    const limits = { free, longestWait, stopAt: MAX_CODES, forgetAfter: CODES_KEPT_MS } as const;
    return { key: codesKey(login), ...limits, forgetFrom: 'latest' };
  }
}

/** Clears all failures of an account, from any address. Those of networks stay. */
export async function clearThrottle(store: LoginThrottleStore, login: string, now: EpochMs): Promise<void> {
  const account = loginKey(login);
  const known = await store.listKnownAddresses(account, now);
  const clear = [
    accountKey(account),
    codesKey(account),
    ...known.map((address) => knownKey(account, address)),
  ];
  await store.settle({ clear, release: [] }, now);
}

/**
 * Returns the limits of failed logins for the networks of an address.
 *
 * @param kind prefix of the keys under which they are counted
 */
export function networkFailures(kind: string, address: string, settings: ThrottleSettings): AttemptLimit[] {
  return networksOf(address).map((each, i) => {
    const times = IPV6_TIMES[i] ?? PER_NETWORK;
    return failures(`${kind}${each}`, settings.max_failures * times, settings);
  });
}

/**
 * Returns the limit of all logins from the network of an address, successful ones included.
 *
 * @param kind prefix of the key under which they are counted
 */
export function networkRate(kind: string, address: string): AttemptLimit {
  return rate(`${kind}${networkOf(address)}`, PER_NETWORK_IN_WINDOW);
}

function failures(key: string, free: number, { lockout }: ThrottleSettings): AttemptLimit {
  const forgetAfter = Math.max(lockout * FORGET_AFTER_WAITS, MINUTE_MS);
  return { key, free, longestWait: lockout, stopAt: Number.MAX_SAFE_INTEGER, forgetAfter, forgetFrom: 'latest' };
} // prettier-ignore

function rate(key: string, most: number): AttemptLimit {
  return {
    key,
    free: most,
    longestWait: WINDOW_MS,
    stopAt: most,
    forgetAfter: WINDOW_MS,
    forgetFrom: 'first',
  };
}

function knownAddress({ login, address }: Attempted): { account: string; address: string } {
  const account = loginKey(login);
  return { account, address: digestOf(JSON.stringify([account, networkOf(address)])) };
}

const accountKey = (account: string) => `account:${account}`;
const codesKey = (account: string) => `codes:${account}`;
const knownKey = (account: string, address: string) => `known:${address}:${account}`;

/** Returns the whole seconds until a time, rounded up; 0 if it has passed. */
export function seconds(until: EpochMs, now: EpochMs): number {
  return Math.max(0, Math.ceil((until - now) / 1000));
}
