import type { WebhookStore } from '../store/webhook-store.js';

/** A sender that is killed, or stopped, is replaced after this, milliseconds. */
const LEASE_MS = 5_000;
/** It is renewed this often. */
const RENEW_MS = 1_500;

/**
 * The lease of the one sender. It counts from the moment at which the store was asked, on the monotonic clock of this
 * process: one that was stopped finds it over. What is under way ends with it.
 */
export class SenderLease {
  readonly #store: Pick<WebhookStore, 'acquire' | 'release'>;
  readonly #holder: string;
  readonly #onChange: (held: boolean) => void;
  #name: string | null = null;
  #askedAt = -Infinity;
  #over = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  /** @param holder a name that no other process has */
  constructor(
    store: Pick<WebhookStore, 'acquire' | 'release'>,
    holder: string,
    onChange: (held: boolean) => void,
  ) {
    this.#store = store;
    this.#holder = holder;
    this.#onChange = onChange;
  }

  /** The lease, taken or renewed when it is time; null while another process has it. @throws StoreUnavailable */
  async renew(): Promise<string | null> {
    const askedAt = performance.now();
    if (askedAt - this.#askedAt < RENEW_MS) return this.#name;
    const name = await this.#store.acquire(this.#holder, LEASE_MS);
    this.#askedAt = askedAt;
    if (name !== this.#name) this.end();
    if (name === null) return null;
    if (this.#name === null) {
      this.#name = name;
      this.#over = new AbortController();
      this.#onChange(true);
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end(), askedAt + LEASE_MS - performance.now()).unref();
    return this.#isOver() ? null : name;
  }

  /** Aborted when that lease is over. */
  signalOf(lease: string): AbortSignal {
    // A timer of a process that was stopped is late.
    if (this.#isOver()) this.end();
    return lease === this.#name ? this.#over.signal : AbortSignal.abort();
  }

  async release(): Promise<void> {
    const name = this.#name;
    this.end();
    this.#askedAt = -Infinity;
    // It is over by itself after a while.
    if (name !== null) await this.#store.release(name).catch(() => undefined);
  }

  #isOver(): boolean {
    return performance.now() - this.#askedAt >= LEASE_MS;
  }

  /** It is over for this process. */
  end(): void {
    clearTimeout(this.#timer);
    if (this.#name === null) return;
    this.#name = null;
    this.#over.abort();
    this.#onChange(false);
  }
}
