/** So many failures in a row, without an answer between them, and an address is left out. */
const MAX_FAILURES = 3;
/** How long it is left out at first; each further failure doubles it, up to the longest. */
const FIRST_OUT_MS = 1_000;
const MAX_OUT_MS = 30_000;
/** So many checks in a row with the same result change what is thought of an address. */
const CHECKS = 2;

/**
 * Whether an address is to be used: what became of the requests that it got, and what its health checks say.
 *
 * After failures it is left out for a while. Then one request in each such while is let to it, and an answer brings it back.
 * It knows no clock: times are milliseconds of any clock that never goes back.
 */
export class AddressHealth {
  #failures = 0;
  /** How long it is left out now; 0 while it isn't. */
  #outMs = 0;
  #outUntil = 0;
  #onTrial = false;
  #checkedHealthy = true;
  /** Checks in a row that say the opposite of what is thought; the first check of all is enough by itself. */
  #opposed = CHECKS - 1;

  /** Whether requests are sent to it as if nothing had happened. */
  get usable(): boolean {
    return this.#outMs === 0 && this.#checkedHealthy;
  }

  /** How long it is left out now, in milliseconds; 0 while it isn't, or only its checks fail. */
  get ejectedMs(): number {
    return this.#outMs;
  }

  /** Whether one request may try an address that is left out. It is then up to this request until as long again has passed. */
  tryProbe(now: number): boolean {
    if (this.#outMs === 0 || !this.#checkedHealthy || now < this.#outUntil) return false;
    this.#outUntil = now + this.#outMs;
    this.#onTrial = true;
    return true;
  }

  answered(): void {
    if (this.#failures !== 0) this.#reset();
  }

  /** It could not be connected to, or broke a connection instead of answering. */
  failed(now: number): void {
    this.#failures += 1;
    // What was under way when it was left out says nothing new.
    if (this.#failures < MAX_FAILURES || (this.#outMs > 0 && !this.#onTrial)) return;
    this.#onTrial = false;
    this.#outMs = this.#outMs === 0 ? FIRST_OUT_MS : Math.min(MAX_OUT_MS, this.#outMs * 2);
    this.#outUntil = now + this.#outMs;
  }

  /** What a health check found. A check that brings it back also resets what requests met. */
  checked(healthy: boolean): void {
    if (healthy === this.#checkedHealthy) {
      this.#opposed = 0;
      return;
    }
    this.#opposed += 1;
    if (this.#opposed < CHECKS) return;
    this.#opposed = 0;
    this.#checkedHealthy = healthy;
    if (healthy) this.#reset();
  }

  #reset(): void {
    this.#failures = 0;
    this.#outMs = 0;
    this.#onTrial = false;
  }
}
