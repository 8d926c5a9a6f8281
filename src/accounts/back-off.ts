import { isIPv6 } from 'node:net';
import type { EpochMs } from '../domain/time.js';
import { loginKey } from '../domain/user.js';
import type { LoginFailures, Store } from '../store/store.js';

const FIRST_DELAY = 1_000;
/** One address may fail this many times as often as one account: offices share one address. */
const PER_ADDRESS = 20;

/** Settings `login.max_failures` and `login.lockout` (milliseconds). */
export interface BackOffSettings {
  readonly max_failures: number;
  readonly lockout: number;
}

/**
 * Slows down guessing: after `max_failures` failed logins of an account each further one doubles the wait,
 * from one second up to `lockout`. The same holds for a client address, with a larger allowance. Failures
 * are forgotten when none came for as long as `lockout`, and by a success.
 *
 * Unknown accounts are counted like known ones, so that the answers tell nothing about which exist.
 */
export class BackOff {
  readonly #store: Store;
  readonly #settings: BackOffSettings;

  constructor(store: Store, settings: BackOffSettings) {
    this.#store = store;
    this.#settings = settings;
  }

  /** Seconds to wait before the next try; 0 when it may be made now. */
  async secondsToWait(login: string, address: string, now: EpochMs): Promise<number> {
    const { max_failures: free } = this.#settings;
    const account = await this.#store.getLoginFailures(accountKey(login), now);
    const source = await this.#store.getLoginFailures(addressKey(address), now);
    const until = Math.max(
      this.#blockedUntil(account, free, now),
      this.#blockedUntil(source, free * PER_ADDRESS, now),
    );
    return Math.max(0, Math.ceil((until - now) / 1000));
  }

  /** Counts a failure. Returns the seconds that the next try has to wait. */
  async failed(login: string, address: string, now: EpochMs): Promise<number> {
    const forgetAt = now + Math.max(this.#settings.lockout, FIRST_DELAY);
    await this.#store.addLoginFailure(accountKey(login), now, forgetAt);
    await this.#store.addLoginFailure(addressKey(address), now, forgetAt);
    return this.secondsToWait(login, address, now);
  }

  /** Forgets the account's failures. The address keeps its own, or one good account would free it to try others. */
  async succeeded(login: string, now: EpochMs): Promise<void> {
    const key = accountKey(login);
    if (await this.#store.getLoginFailures(key, now)) await this.#store.clearLoginFailures(key);
  }

  #blockedUntil(failures: LoginFailures | undefined, free: number, now: EpochMs): EpochMs {
    if (failures === undefined || failures.count < free) return 0;
    const doublings = Math.min(failures.count - free, 30);
    // A clock that was set back makes nobody wait for longer.
    return Math.min(failures.lastAt, now) + Math.min(this.#settings.lockout, FIRST_DELAY * 2 ** doublings);
  }
}

function accountKey(login: string): string {
  return `account:${loginKey(login)}`;
}

/** An IPv6 client owns a whole /64, so that is what is counted. */
function addressKey(address: string): string {
  if (!isIPv6(address)) return `address:${address}`;
  return `address:${expandIPv6(address).slice(0, 4).join(':')}::/64`;
}

function expandIPv6(address: string): string[] {
  const [left = '', right] = address.split('%', 1)[0]?.split('::') ?? [];
  const head = left === '' ? [] : left.split(':');
  if (right === undefined) return head;
  const tail = right === '' ? [] : right.split(':');
  return [...head, ...Array<string>(Math.max(0, 8 - head.length - tail.length)).fill('0'), ...tail];
}
