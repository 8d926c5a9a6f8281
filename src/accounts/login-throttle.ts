import type { Config } from '../config/schema/config.js';
import { digestOf } from '../domain/secret.js';
import type { EpochMs } from '../domain/time.js';
import { loginKey } from '../domain/user.js';
import { bytesOfAddress } from '../domain/address.js';
import type { AttemptLimit, LoginThrottleStore } from '../store/login-throttle-store.js';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** One network may fail this many times as often as one account: offices share one address. */
const PER_NETWORK = 20;
/** An IPv6 client may own a whole /64, and its site a /56 or a /48 (RFC 6177): these get more. */
const IPV6_NETWORKS = [
  { bytes: 8, times: PER_NETWORK },
  { bytes: 7, times: 4 * PER_NETWORK },
  { bytes: 6, times: 16 * PER_NETWORK },
] as const;

/** Counts are kept for so many of their longest waits, so that waiting is no way to have them forgotten. */
const FORGET_AFTER_WAITS = 4;

/** Wrong one-time passwords in a row at which no further one is looked at. */
const MAX_CODES = 100;
const CODES_KEPT_MS = 30 * DAY_MS;

/** How long an address that an account logged in from is remembered. */
const KNOWN_MS = 30 * DAY_MS;

/** Logins of one account and from one network in a window, right ones as well: sessions are not made without bound. */
const WINDOW_MS = 5 * MINUTE_MS;
const PER_ACCOUNT_IN_WINDOW = 1_000;
const PER_NETWORK_IN_WINDOW = 10_000;

/** How many guesses are free, and the longest wait. */
export type ThrottleSettings = Pick<Config['login'], 'max_failures' | 'lockout'>;

/** What is counted of an attempt. */
export interface Attempted {
  readonly login: string;
  /** IP address of the client. */
  readonly address: string;
  /** Whether a one-time password came along. */
  readonly hasCode: boolean;
}

/** How a reserved attempt ended: nothing was guessed, a one-time password was, or it was let in. */
export type Ending = 'unjudged' | 'right_password' | 'wrong_code' | 'let_in';

/** An attempt that counts as a failure already. */
export interface Reservation {
  /** Takes the attempt back: it was not a wrong password. Otherwise it stays counted. */
  settle(ending: Ending, now: EpochMs): Promise<void>;
  /** Seconds that the next try has to wait, once this one stays counted; 0 when it need not. */
  nextWait(now: EpochMs): Promise<number>;
}

/**
 * Slows down guessing: after `max_failures` failed logins of an account each further one doubles the wait, from one second
 * up to `lockout`. The same holds for the network of a client, with a larger allowance.
 *
 * An attempt is counted before its password is looked at, and taken back when it was right. Unknown accounts are counted
 * like known ones, so that the answers tell nothing about which exist. An address that logged in to an account before has a
 * count of its own there, so that strangers can't keep a person out. Wrong one-time passwords are counted apart, for
 * whoever gets so far knows the password.
 */
export class LoginThrottle {
  readonly #store: LoginThrottleStore;
  readonly #settings: ThrottleSettings;

  constructor(store: LoginThrottleStore, settings: ThrottleSettings) {
    this.#store = store;
    this.#settings = settings;
  }

  /** Seconds to wait before the next try; 0 when it may be made now. It counts nothing. */
  async secondsToWait(attempted: Attempted, now: EpochMs): Promise<number> {
    const counts = await this.#countsOf(attempted, now);
    return seconds(await this.#store.heldUntil(counts.limits, now), now);
  }

  /** Counts an attempt, or returns the seconds that it has to wait. */
  async reserve(attempted: Attempted, now: EpochMs): Promise<Reservation | number> {
    const { account, networks, code, limits } = await this.#countsOf(attempted, now);
    const until = await this.#store.reserve(limits, now);
    if (until > now) return seconds(until, now);
    const released = networks.map(({ key }) => key);
    return {
      settle: async (ending, at) => {
        switch (ending) {
          case 'unjudged':
          case 'right_password':
            return this.#store.settle({ clear: [], release: [account.key, ...released, ...code] }, at);
          case 'wrong_code':
            return this.#store.settle({ clear: [], release: [account.key] }, at);
          case 'let_in': {
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

/** Forgets every failure of an account, wherever it came from. Those of networks stay. */
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

/** Limits of the failed logins from the networks of an address. @param kind what they are counted under */
export function networkFailures(kind: string, address: string, settings: ThrottleSettings): AttemptLimit[] {
  return networksOf(address).map((each, i) => {
    const times = IPV6_NETWORKS[i]?.times ?? PER_NETWORK;
    return failures(`${kind}${each}`, settings.max_failures * times, settings);
  });
}

/** The limit of all logins from the network of an address, right ones as well. */
export function networkRate(kind: string, address: string): AttemptLimit {
  return rate(`${kind}${networksOf(address)[0]}`, PER_NETWORK_IN_WINDOW);
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

/** The narrowest network that an address is in, and wider ones; as its text when it is no address. */
function networksOf(address: string): string[] {
  const bytes = bytesOfAddress(address);
  if (bytes.length === 4) return [bytes.join('.')];
  if (bytes.length === 0) return [address];
  const hex = Buffer.from(bytes).toString('hex');
  return IPV6_NETWORKS.map(({ bytes: length }) => `${hex.slice(0, 2 * length)}/${8 * length}`);
}

function knownAddress({ login, address }: Attempted): { account: string; address: string } {
  const account = loginKey(login);
  return { account, address: digestOf(JSON.stringify([account, networksOf(address)[0]])) };
}

const accountKey = (account: string) => `account:${account}`;
const codesKey = (account: string) => `codes:${account}`;
const knownKey = (account: string, address: string) => `known:${address}:${account}`;

/** Whole seconds until a time; 0 when it has passed. */
export function seconds(until: EpochMs, now: EpochMs): number {
  return Math.max(0, Math.ceil((until - now) / 1000));
}
