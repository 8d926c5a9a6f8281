import { Command, type Redis } from 'ioredis';

/** How long a confirmation of the master holds after it was requested, in milliseconds. */
export const LEASE_MS = 1_000;

/**
 * How long a confirmed master may be used. It counts from the question, on the monotonic clock: a
 * process or server that was stopped meanwhile finds it expired.
 */
export class Lease {
  #askedAt = -Infinity;
  #ended = false;

  get askedAt(): number {
    return this.#ended ? -Infinity : this.#askedAt;
  }

  get until(): number {
    return this.askedAt + LEASE_MS;
  }

  isHeld(): boolean {
    return performance.now() < this.until;
  }

  /** Whether it ended for good. A lease that is merely not held may still be extended. */
  get hasEnded(): boolean {
    return this.#ended;
  }

  isConfirmedSince(time: number): boolean {
    return this.isHeld() && this.#askedAt >= time;
  }

  extend(askedAt: number): void {
    this.#askedAt = Math.max(this.#askedAt, askedAt);
  }

  end(): void {
    this.#ended = true;
  }
}

export interface Identity {
  /** Id of the server process; new after each start. */
  readonly runId: string;
  /** Id of the history; new after each promotion. */
  readonly replicationId: string;
  /** Length of that history, in bytes. */
  readonly offset: number;
  /** Number of the failover that made it the master (`AgreedMaster` in `agreement.ts`). */
  readonly epoch: number;
}

type OwnIdentity = Omit<Identity, 'epoch'>;

export class NotMaster extends Error {}

/** @throws NotMaster for a replica */
export async function readIdentity(redis: Redis): Promise<OwnIdentity> {
  const [server, replication] = await Promise.all([info(redis, 'server'), info(redis, 'replication')]);
  return { runId: fieldOf(server, 'run_id'), ...historyOf(replication) };
}

/** @throws NotMaster for a replica */
export async function readHistory(redis: Redis): Promise<Omit<OwnIdentity, 'runId'>> {
  return historyOf(await info(redis, 'replication'));
}

/** Whether a server may have lost earlier writes. */
export function isAnotherHistory(now: Identity, before: Identity): boolean {
  return nameOfHistory(now) !== nameOfHistory(before) || now.runId !== before.runId || now.offset < before.offset;
} // prettier-ignore

/** Returns a name that is unique for each period in which a server is the master. */
export function nameOfHistory({ replicationId, epoch }: Identity): string {
  return `${replicationId}:${epoch}`;
}

function historyOf(replication: string): Omit<OwnIdentity, 'runId'> {
  const role = fieldOf(replication, 'role');
  if (role !== 'master') throw new NotMaster(`the server is not a master; its role is ${role}`);
  return {
    replicationId: fieldOf(replication, 'master_replid'),
    offset: Number(fieldOf(replication, 'master_repl_offset')),
  };
}

/** A reply that arrives after a lease has expired would prove nothing. */
async function info(redis: Redis, section: string): Promise<string> {
  const command = new Command('info', [section], { replyEncoding: 'utf8' });
  command.setTimeout(LEASE_MS);
  return (await redis.sendCommand(command)) as string;
}

function fieldOf(info: string, name: string): string {
  return new RegExp(`^${name}:([^\r\n]*)`, 'm').exec(info)?.[1] ?? '';
}
