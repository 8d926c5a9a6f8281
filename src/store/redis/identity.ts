import { Command, type Redis } from 'ioredis';

/** How long a confirmation of the master holds after it was requested, in milliseconds. */
export const LEASE_MS = 1_000;

/**
 * How long a confirmed master may be used as the master.
 *
 * It counts from the moment of the question, on the monotonic clock. So a process or server that
 * was stopped meanwhile finds the lease expired.
 */
export class Lease {
  #askedAt = -Infinity;
  #ended = false;

  /** `performance.now()` of the latest question that was answered. */
  get askedAt(): number {
    return this.#ended ? -Infinity : this.#askedAt;
  }

  /** `performance.now()` until which it holds. */
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

  /** Whether the master was confirmed by a question that was asked after a time. */
  isConfirmedSince(time: number): boolean {
    return this.isHeld() && this.#askedAt >= time;
  }

  /** Extends the lease after a confirmation. @param askedAt `performance.now()` of the question */
  extend(askedAt: number): void {
    this.#askedAt = Math.max(this.#askedAt, askedAt);
  }

  /** Ends the lease for good. */
  end(): void {
    this.#ended = true;
  }
}

/** The server of a connection, and how far its history goes. */
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

/** The identity that a server reports of itself. */
type OwnIdentity = Omit<Identity, 'epoch'>;

/** The server is not a master, so no store may be kept on it. */
export class NotMaster extends Error {}

/** Asks a server for its identity, over this connection. @throws NotMaster for a replica */
export async function readIdentity(redis: Redis): Promise<OwnIdentity> {
  const [server, replication] = await Promise.all([info(redis, 'server'), info(redis, 'replication')]);
  return { runId: fieldOf(server, 'run_id'), ...historyOf(replication) };
}

/**
 * Asks a server how far its history goes. Its process is that of the connection.
 *
 * @throws NotMaster for a replica
 */
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

/**
 * Reads a section of `INFO`. A reply that arrives after a lease has expired would prove nothing.
 */
async function info(redis: Redis, section: string): Promise<string> {
  const command = new Command('info', [section], { replyEncoding: 'utf8' });
  command.setTimeout(LEASE_MS);
  return (await redis.sendCommand(command)) as string;
}

/** Returns a field of `INFO`; empty if the server does not report it. */
function fieldOf(info: string, name: string): string {
  return new RegExp(`^${name}:([^\r\n]*)`, 'm').exec(info)?.[1] ?? '';
}
