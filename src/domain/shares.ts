import { networkOf } from '../util/addresses.js';
import type { Subject } from './credential.js';
import { LinkedQueue } from '../util/collections.js';

/** Names whom a place of a shared resource counts for, the widest first; each says what it names. */
export type Holder = readonly string[];

/** Returns whom a request counts for. */
export function holderOf(address: string, subject: Subject | null): Holder {
  const network = networkOf(address);
  if (subject === null)
    return [`network ${network}`, `anonymous from ${network}`, `no credential from ${network}`];
  const credential =
    subject.credential === 'session' ? `session ${subject.session.id}` : `token ${subject.token.id}`;
  return [`network ${network}`, `user ${subject.user.id}`, credential];
}

type Kind = 'held' | 'waiting';

interface Tally {
  readonly name: string;
  held: number;
  waiting: number;
  /** When it last had its turn among those that wait; 0 for never. */
  turn: number;
}

/** The places of one holder, and of each of its names anywhere. */
export class Share<T> {
  readonly queue = new LinkedQueue<T>();
  readonly key: string;
  readonly tallies: readonly Tally[];
  held = 0;
  waiting = 0;

  constructor(key: string, tallies: readonly Tally[]) {
    this.key = key;
    this.tallies = tallies;
  }
}

export interface Most<T> {
  readonly share: Share<T>;
  readonly name: string;
  readonly count: number;
}

/**
 * Counts the places of a shared resource, and decides who gives way: whose network, user or credential has
 * the most. What two have in common does not decide: behind an unknown proxy all share a network, and a
 * leaked token has the same user everywhere.
 */
export class Shares<T> {
  readonly #shares = new Map<string, Share<T>>();
  readonly #tallies = new Map<string, Tally>();
  #turns = 0;

  /** Returns the share of a holder; it must be counted next. */
  of(holder: Holder): Share<T> {
    const key = JSON.stringify(holder);
    let share = this.#shares.get(key);
    if (share === undefined) {
      const tallies = holder.map((name) => this.#tallyOf(name));
      this.#shares.set(key, (share = new Share(key, tallies)));
    }
    return share;
  }

  count(share: Share<T>, kind: Kind, by: 1 | -1): void {
    share[kind] += by;
    for (const tally of share.tallies) {
      tally[kind] += by;
      if (tally.held + tally.waiting === 0) this.#tallies.delete(tally.name);
    }
    if (share.held + share.waiting === 0) this.#shares.delete(share.key);
  }

  waiting(): Share<T>[] {
    return [...this.#shares.values()].filter(({ waiting }) => waiting > 0);
  }

  /** Returns the waiting share that holds the least, in turn among equals. */
  next(): Share<T> | undefined {
    let best: Share<T> | undefined;
    for (const share of this.#shares.values())
      if (share.waiting > 0 && (best === undefined || isBefore(share, best))) best = share;
    this.#turns += 1;
    for (const tally of best?.tallies ?? []) tally.turn = this.#turns;
    return best;
  }

  /**
   * Returns the share with the most, if it has strictly more than another would have. Within one network,
   * that is the share of the user, and then of the credential, with the most.
   * @param more what the other would have in addition
   */
  most(kind: Kind, other: Share<T>, more: number): Most<T> | undefined {
    let best: Most<T> | undefined;
    for (const share of this.#shares.values()) {
      if (share[kind] === 0) continue;
      const most = largest(share, kind, other);
      const own = largest(other, kind, share);
      if (most === undefined || own === undefined || most[kind] <= own[kind] + more) continue;
      const count = most[kind];
      if (best !== undefined && (count - best.count || total(share, kind) - total(best.share, kind)) <= 0)
        continue;
      best = { share, name: most.name, count };
    }
    return best;
  }

  #tallyOf(name: string): Tally {
    let tally = this.#tallies.get(name);
    if (tally === undefined) this.#tallies.set(name, (tally = { name, held: 0, waiting: 0, turn: 0 }));
    return tally;
  }
}

/** Returns the largest tally of a share that another does not have in common with it. */
function largest({ tallies }: Share<unknown>, kind: Kind, other: Share<unknown>): Tally | undefined {
  let best: Tally | undefined;
  for (const tally of tallies)
    if (!other.tallies.includes(tally) && (best === undefined || tally[kind] > best[kind])) best = tally;
  return best;
}

function total({ tallies }: Share<unknown>, kind: Kind): number {
  return tallies.reduce((sum, tally) => sum + tally[kind], 0);
}

function isBefore(a: Share<unknown>, b: Share<unknown>): boolean {
  const difference = total(a, 'held') - total(b, 'held');
  if (difference !== 0) return difference < 0;
  for (const [level, tally] of a.tallies.entries()) {
    const turns = tally.turn - (b.tallies[level]?.turn ?? 0);
    if (turns !== 0) return turns < 0;
  }
  return false;
}
