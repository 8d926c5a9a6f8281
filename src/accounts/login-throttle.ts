import type { Config } from '../config/schema/config.js';
import { digestOf } from '../domain/secret.js';
import type { EpochMs } from '../util/time.js';
import { loginKey } from '../domain/user.js';
import { networkOf, networksOf } from '../util/addresses.js';
import type { AttemptLimit, LoginThrottleStore } from '../store/core/usage.js';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** As a multiple of an account's: offices share one address. */
const PER_NETWORK = 20;
/** For the networks of an IPv6 client, narrowest first. */
const IPV6_TIMES = [PER_NETWORK, 4 * PER_NETWORK, 16 * PER_NETWORK];

/** Waiting alone must not reset a count. */
const FORGET_AFTER_WAITS = 4;

/** Wrong one-time passwords after which no further one is checked. */
const MAX_CODES = 100;
const CODES_KEPT_MS = 30 * DAY_MS;

const KNOWN_MS = 30 * DAY_MS;

/** Logins per window, successful ones included: bounds the number of sessions. */
const WINDOW_MS = 5 * MINUTE_MS;
const PER_ACCOUNT_IN_WINDOW = 1_000;
const PER_NETWORK_IN_WINDOW = 10_000;

export type ThrottleSettings = Pick<Config['login'], 'max_failures' | 'lockout'>;

export interface Attempted {
  readonly login: string;
  readonly address: string;
  readonly hasCode: boolean;
}

/** `not_checked`, `right_password`: nothing was guessed. `wrong_password`: no code was checked. */
export type AttemptOutcome = 'not_checked' | 'right_password' | 'wrong_password' | 'wrong_code' | 'succeeded';

export interface Reservation {
  /** Takes the attempt out of the counts of what it did not guess; otherwise it stays counted. */
  settle(outcome: AttemptOutcome, now: EpochMs): Promise<void>;
  /** Seconds until the next attempt, once this one is settled. */
  nextWait(now: EpochMs): Promise<number>;
}

/**
 * Each failed login beyond `max_failures` doubles the wait, from one second up to `lockout`: for the account,
 * and with a larger allowance for the client's network. An attempt counts before its password is checked.
 * Unknown accounts count like known ones, so that responses do not reveal which exist. An address that logged
 * in before has its own count, so that strangers cannot lock a person out.
 */
export class LoginThrottle {
  readonly #store: LoginThrottleStore;
  readonly #settings: ThrottleSettings;

  constructor(store: LoginThrottleStore, settings: ThrottleSettings) {
    this.#store = store;
    this.#settings = settings;
  }

  /**
   * The seconds to wait, and whether the address logged in before. Counts nothing. What may count is read
   * at once.
   */
  async look(
    attempted: Attempted,
    now: EpochMs,
  ): Promise<{ readonly wait: number; readonly known: boolean }> {
    const [known, ifKnown, otherwise] = await Promise.all([
      this.#isKnown(attempted, now),
      this.#store.blockedUntil(this.#countsOf(attempted, true).limits, now),
      this.#store.blockedUntil(this.#countsOf(attempted, false).limits, now),
    ]);
    return { wait: seconds(known ? ifKnown : otherwise, now), known };
  }

  /**
   * Counts an attempt; returns the seconds to wait if it is not allowed yet.
   * @param isKnown of its address, if that was read a moment ago
   */
  async reserve(attempted: Attempted, now: EpochMs, isKnown?: boolean): Promise<Reservation | number> {
    const { account, networks, code, limits } = this.#countsOf(
      attempted,
      isKnown ?? (await this.#isKnown(attempted, now)),
    );
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
      nextWait: async (at) => (await this.look(attempted, at)).wait,
    };
  }

  async #isKnown(attempted: Attempted, now: EpochMs): Promise<boolean> {
    const { account, address } = knownAddress(attempted);
    return (await this.#store.listKnownAddresses(account, now)).includes(address);
  }

  #countsOf(attempted: Attempted, known: boolean) {
    const { max_failures: free, lockout: longestWait } = this.#settings;
    const { account: login, address } = knownAddress(attempted);
    const account = failures(known ? knownKey(login, address) : accountKey(login), free, this.#settings);
    const networks = networkFailures('address:', attempted.address, this.#settings);
    const wrongCodes: AttemptLimit = {
      key: codesKey(login), free, longestWait, stopAt: MAX_CODES, forgetAfter: CODES_KEPT_MS, forgetFrom: 'latest',
    };
    const codes = attempted.hasCode ? [wrongCodes] : [];
    const rates = [rate(`logins:${login}`, PER_ACCOUNT_IN_WINDOW), networkRate('logins from ', attempted.address)];
    return { account, networks, code: codes.map(({ key }) => key), limits: [account, ...networks, ...codes, ...rates] };
  } // prettier-ignore
}

/** From any address; failures of networks stay. */
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

/** @param kind prefix of the keys under which they are counted */
export function networkFailures(kind: string, address: string, settings: ThrottleSettings): AttemptLimit[] {
  return networksOf(address).map((each, i) => {
    const times = IPV6_TIMES[i] ?? PER_NETWORK;
    return failures(`${kind}${each}`, settings.max_failures * times, settings);
  });
}

/** Successful logins included. */
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

/** Rounded up; 0 if the time has passed. */
export function seconds(until: EpochMs, now: EpochMs): number {
  return Math.max(0, Math.ceil((until - now) / 1000));
}
