import { performance } from 'node:perf_hooks';
import { LinkedQueue, Node } from '../util/collections.js';
import { type Holder, type Share, Shares } from './shares.js';

/** Who uses a place of a limited resource, or waits for one. */
export interface Use {
  /** Whom it counts for; read only while the resource is full. */
  readonly holder: Holder;
  /** Called when its permit is held, unless {@link Limiter.acquire} returned it so. */
  go(): void;
  /** Called when it must end: it waited too long, or it yields, and then must release a held permit soon. */
  leave(why: 'waited' | 'yielded'): void;
}

export interface LimiterSettings {
  readonly size: number;
  readonly maxWaiting: number;
  readonly timeout: number;
  /** Milliseconds until one that waits makes who holds most give way; absent: held permits are kept. */
  readonly patience?: number;
}

/** Called when one gives way that held a permit or waited for one: who has the most, and how many. */
export type OnYield = (kind: 'held' | 'waiting', name: string, count: number) => void;

const TICK_MS = 50;

/** A yielding permit is held still, but no longer counts as its holder's. */
type State = 'held' | 'yielding' | 'waiting' | 'released';

/** The right to use one place, or a place in the queue for it. {@link Permit.release} ends either. */
export class Permit extends Node<Use> {
  readonly #released: (permit: Permit, state: State) => void;
  state: State;
  share: Share<Use> | undefined;

  constructor(use: Use, state: State, released: (permit: Permit, state: State) => void) {
    super(use, 0);
    this.state = state;
    this.#released = released;
  }

  get isHeld(): boolean {
    return this.state === 'held';
  }

  /** Releases the place, or leaves the queue. Further calls have no effect. */
  release(): void {
    const { state } = this;
    if (state === 'released') return;
    this.state = 'released';
    this.#released(this, state);
  }
}

/**
 * Limits concurrent uses of a resource, with a queue for the rest. A free place goes to the one that waits
 * and holds least, in turn among equals. At a full queue, and for one that has waited for some time, who has
 * most gives way ({@link Shares}): of its uses that wait, the last; of those that hold a permit, the oldest,
 * which is most likely to be stuck. Shares are counted only while the resource is full, and for a moment
 * afterwards.
 */
export class Limiter {
  readonly #settings: LimiterSettings;
  readonly #onYield: OnYield;
  /** Held permits, the oldest first. */
  readonly #held = new LinkedQueue<Use>();
  #shares: Shares<Use> | undefined;
  #waiting = 0;
  /** The permit that is being acquired, whose `go` is not called. */
  #arriving: Permit | undefined;
  #wasEmpty = false;

  constructor(settings: LimiterSettings, onYield: OnYield = () => undefined) {
    this.#settings = settings;
    this.#onYield = onYield;
  }

  get active(): number {
    return this.#held.size;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Returns a permit, held or queued; undefined when the queue is full and no one gives way. */
  acquire(use: Use): Permit | undefined {
    if (this.#held.size >= this.#settings.size) return this.#wait(use);
    const permit = new Permit(use, 'held', this.#released);
    this.#hold(permit);
    return permit;
  }

  /** Makes who holds most give way, if it has more than the holder of a permit that is held. */
  makeRoom(permit: Permit): boolean {
    this.#countShares();
    return permit.share !== undefined && this.#yieldHeld(permit.share, 0);
  }

  #hold(permit: Permit): void {
    // The order is that of the additions; no time is needed.
    this.#held.addNode(permit, 0);
    const shares = this.#shares;
    if (shares === undefined) return;
    permit.share = shares.of(permit.member.holder);
    shares.count(permit.share, 'held', 1);
  }

  #wait(use: Use): Permit | undefined {
    const shares = this.#countShares();
    const permit = new Permit(use, 'waiting', this.#released);
    const share = shares.of(use.holder);
    permit.share = share;
    share.queue.addNode(permit, performance.now());
    shares.count(share, 'waiting', 1);
    this.#waiting += 1;
    const { maxWaiting } = this.#settings;
    if (this.#waiting <= maxWaiting) return permit;
    const earlier = this.#arriving;
    this.#arriving = permit;
    // A permit taken back goes to one that waits, which leaves a place in the queue.
    if (!this.#yieldWaiting(share)) this.#yieldHeld(share, 1);
    this.#arriving = earlier;
    if (this.#waiting <= maxWaiting || permit.state !== 'waiting') return permit;
    permit.release();
    return undefined;
  }

  readonly #released = (permit: Permit, state: State): void => {
    if (state === 'waiting') {
      permit.share?.queue.remove(permit);
      this.#uncountWaiting(permit);
      return;
    }
    this.#held.remove(permit);
    if (state === 'held' && permit.share !== undefined) this.#shares?.count(permit.share, 'held', -1);
    if (this.#waiting > 0) this.#grant(this.#shares?.next()?.queue.first as Permit);
  };

  #grant(permit: Permit): void {
    permit.state = 'held';
    permit.share?.queue.remove(permit);
    this.#hold(permit);
    this.#uncountWaiting(permit);
    // Deferred, because this runs inside the end of another use.
    if (permit !== this.#arriving) process.nextTick(start, permit);
  }

  #uncountWaiting({ share }: Permit): void {
    this.#waiting -= 1;
    if (share !== undefined) this.#shares?.count(share, 'waiting', -1);
  }

  #yieldWaiting(share: Share<Use>): boolean {
    const most = this.#shares?.most('waiting', share, 0);
    const last = most?.share.queue.last as Permit | undefined;
    if (most === undefined || last === undefined) return false;
    this.#onYield('waiting', most.name, most.count);
    last.release();
    last.member.leave('yielded');
    return true;
  }

  #yieldHeld(share: Share<Use>, more: number): boolean {
    if (this.#settings.patience === undefined) return false;
    const shares = this.#shares;
    const most = shares?.most('held', share, more);
    if (shares === undefined || most === undefined) return false;
    let oldest = this.#held.first as Permit | undefined;
    while (oldest !== undefined && (oldest.share !== most.share || !oldest.isHeld))
      oldest = oldest.after as Permit | undefined;
    if (oldest === undefined) return false;
    this.#onYield('held', most.name, most.count);
    oldest.state = 'yielding';
    shares.count(most.share, 'held', -1);
    oldest.member.leave('yielded');
    return true;
  }

  /** Starts to count shares, until the queue has been empty for a moment. */
  #countShares(): Shares<Use> {
    if (this.#shares !== undefined) return this.#shares;
    const shares = (this.#shares = new Shares<Use>());
    for (let node = this.#held.first; node !== undefined; node = node.after) {
      const permit = node as Permit;
      if (!permit.isHeld) continue;
      permit.share = shares.of(permit.member.holder);
      shares.count(permit.share, 'held', 1);
    }
    this.#wasEmpty = false;
    setTimeout(this.#tick, TICK_MS);
    return shares;
  }

  readonly #tick = (): void => {
    const isEmpty = this.#waiting === 0;
    if (isEmpty && this.#wasEmpty) {
      this.#shares = undefined;
      for (let node = this.#held.first; node !== undefined; node = node.after)
        (node as Permit).share = undefined;
      return;
    }
    this.#wasEmpty = isEmpty;
    setTimeout(this.#tick, TICK_MS);
    this.#relieve(performance.now());
  };

  /** Ends waits that were too long, and takes permits back for those that have waited for some time. */
  #relieve(now: number): void {
    const { timeout, patience = Infinity } = this.#settings;
    for (const share of this.#shares?.waiting() ?? []) {
      for (const late of share.queue.renewedBefore(now - timeout) as Permit[]) {
        if (late.state !== 'waiting') continue;
        late.release();
        late.member.leave('waited');
      }
      let impatient = share.queue.renewedBefore(now - patience).length;
      while (impatient > 0 && this.#yieldHeld(share, 1)) impatient -= 1;
    }
  }
}

function start(permit: Permit): void {
  if (permit.isHeld) permit.member.go();
}

/** Waits for a place. @throws what `refused` returns if the queue is full, or the wait was too long */
export async function permitOf(limiter: Limiter, holder: Holder, refused: () => Error): Promise<Permit> {
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(refused());
    const permit = limiter.acquire({ holder, go: () => resolve(permit as Permit), leave });
    if (permit === undefined) leave();
    else if (permit.isHeld) resolve(permit);
  });
}
