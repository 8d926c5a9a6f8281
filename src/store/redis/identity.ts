import { Command, type Redis } from 'ioredis';

/** What is known of the master holds so long after it was asked for, in milliseconds. */
export const LEASE_MS = 1_000;

/**
 * How long a confirmed master may be used as the master.
 *
 * It counts on the monotonic clock, from the moment of the question: a process that was stopped meanwhile, or a server
 * that was, finds the lease over.
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

  /** Whether it is over for good; one that is only not held may still be extended. */
  get isOver(): boolean {
    return this.#ended;
  }

  /** Whether the master was confirmed by a question that was asked after that time. */
  isConfirmedSince(time: number): boolean {
    return this.isHeld() && this.#askedAt >= time;
  }

  /** The master was confirmed. @param askedAt `performance.now()` of the question */
  extend(askedAt: number): void {
    this.#askedAt = Math.max(this.#askedAt, askedAt);
  }

  /** The lease is lost for good. */
  end(): void {
    this.#ended = true;
  }
}

/** The server of a connection, and how far its history goes. */
export interface Identity {
  /** Of the process: another one after each start. */
  readonly runId: string;
  /** Of the history: another one after each promotion. */
  readonly replicationId: string;
  /** Bytes of that history. */
  readonly offset: number;
  /** Number of the failover that made it the master (`AgreedMaster` in `agreement.ts`). */
  readonly epoch: number;
}

/** A server's own description. */
type OwnIdentity = Omit<Identity, 'epoch'>;

/** The server is none that a store may be kept on. */
export class NotMaster extends Error {}

/** Asks a server who it is, on this connection. @throws NotMaster for a replica */
export async function readIdentity(redis: Redis): Promise<OwnIdentity> {
  const [server, replication] = await Promise.all([info(redis, 'server'), info(redis, 'replication')]);
  return { runId: fieldOf(server, 'run_id'), ...historyOf(replication) };
}

/** Asks a server how far its history goes; its process is that of the connection. @throws NotMaster for a replica */
export async function readHistory(redis: Redis): Promise<Omit<OwnIdentity, 'runId'>> {
  return historyOf(await info(redis, 'replication'));
}

/** Whether a server may have lost earlier writes. */
export function isAnotherHistory(now: Identity, before: Identity): boolean {
  return nameOfHistory(now) !== nameOfHistory(before) || now.runId !== before.runId || now.offset < before.offset;
} // prettier-ignore

/** One name for each time that a server is the master. */
export function nameOfHistory({ replicationId, epoch }: Identity): string {
  return `${replicationId}:${epoch}`;
}

function historyOf(replication: string): Omit<OwnIdentity, 'runId'> {
  const role = fieldOf(replication, 'role');
  if (role !== 'master') throw new NotMaster(`the server is no master but has the role ${role}`);
  return {
    replicationId: fieldOf(replication, 'master_replid'),
    offset: Number(fieldOf(replication, 'master_repl_offset')),
  };
}

/** An answer that comes later than a lease lasts tells nothing. */
async function info(redis: Redis, section: string): Promise<string> {
  const command = new Command('info', [section], { replyEncoding: 'utf8' });
  command.setTimeout(LEASE_MS);
  return (await redis.sendCommand(command)) as string;
}

/** A field of `INFO`; empty when the server does not tell it. */
function fieldOf(info: string, name: string): string {
  return new RegExp(`^${name}:([^\r\n]*)`, 'm').exec(info)?.[1] ?? '';
}
