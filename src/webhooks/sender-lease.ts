import type { WebhookStore } from '../store/core/webhooks.js';

/** Lease time, milliseconds. A sender that is killed or suspended is replaced after this. */
const LEASE_MS = 5_000;
const RENEW_MS = 1_500;

/**
 * The lease that makes one process the sender. It runs from the moment the store was asked, by a
 * monotonic clock, so that a process that was suspended finds its lease expired.
 */
export class SenderLease {
  readonly #store: Pick<WebhookStore, 'acquire' | 'release'>;
  readonly #holder: string;
  readonly #onChange: (held: boolean) => void;
  #name: string | null = null;
  #requestedAt = -Infinity;
  #abortController = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  /** @param holder a name that no other process uses */
  constructor(
    store: Pick<WebhookStore, 'acquire' | 'release'>,
    holder: string,
    onChange: (held: boolean) => void,
  ) {
    this.#store = store;
    this.#holder = holder;
    this.#onChange = onChange;
  }

  /** Acquires the lease, or renews it when due; null while another process holds it. */
  async renew(): Promise<string | null> {
    const requestedAt = performance.now();
    if (requestedAt - this.#requestedAt < RENEW_MS) return this.#name;
    const name = await this.#store.acquire(this.#holder, LEASE_MS);
    this.#requestedAt = requestedAt;
    if (name !== this.#name) this.end();
    if (name === null) return null;
    if (this.#name === null) {
      this.#name = name;
      this.#abortController = new AbortController();
      this.#onChange(true);
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end(), requestedAt + LEASE_MS - performance.now()).unref();
    return this.#isExpired() ? null : name;
  }

  signalOf(lease: string): AbortSignal {
    // After the process was suspended, the timer fires late.
    if (this.#isExpired()) this.end();
    return lease === this.#name ? this.#abortController.signal : AbortSignal.abort();
  }

  async release(): Promise<void> {
    const name = this.#name;
    this.end();
    this.#requestedAt = -Infinity;
    // If the release fails, the lease expires by itself.
    if (name !== null) await this.#store.release(name).catch(() => undefined);
  }

  #isExpired(): boolean {
    return performance.now() - this.#requestedAt >= LEASE_MS;
  }

  /** Ends the lease in this process only. */
  end(): void {
    clearTimeout(this.#timer);
    if (this.#name === null) return;
    this.#name = null;
    this.#abortController.abort();
    this.#onChange(false);
  }
}
