import { Command, type Redis, ReplyError } from 'ioredis';
import type { RedisNode } from '../../domain/urls.js';
import type { AgreedMaster, MasterElectors } from './electors.js';
import { addressText, connectionTo, open, type RedisSettings } from './connect.js';

/** How long a confirmation of the master holds after it was requested, in milliseconds. */
export const LEASE_MS = 1_000;

export interface Identity {
  /** Id of the server process; new after each start. */
  readonly runId: string;
  /** Id of the history; new after each promotion. */
  readonly replicationId: string;
  /** Length of that history, in bytes. */
  readonly offset: number;
  /** Number of the failover that made it the master (`AgreedMaster`). */
  readonly epoch: number;
}

type History = Pick<Identity, 'replicationId' | 'offset'>;

class NotMaster extends Error {}

/** @throws NotMaster for a replica */
export async function readIdentity(redis: Redis): Promise<Omit<Identity, 'epoch'>> {
  const [server, replication] = await Promise.all([info(redis, 'server'), info(redis, 'replication')]);
  return { runId: fieldOf(server, 'run_id'), ...historyOf(replication) };
}

/** @throws NotMaster for a replica */
export async function readHistory(redis: Redis): Promise<History> {
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

function historyOf(replication: string): History {
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

const UNANSWERED = 5;
const CONFIRM_MS = 250;
const OPEN_MS = 2_000;

/**
 * The connections to one server process, as long as it is confirmed as the master with one history. A
 * confirmation counts from the question, on the monotonic clock: a process or server that was stopped
 * meanwhile finds it expired.
 */
export class MasterSession {
  readonly node: RedisNode;
  readonly commands: Redis;
  /** For changes that wait for replicas, which blocks the commands that follow. */
  readonly changes: Redis;
  readonly lost: Promise<string>;
  readonly #electors: MasterElectors;
  #hasEnded = false;
  #confirmedAt = -Infinity;
  #identity: Identity;
  #lose: (reason: string) => void = () => undefined;
  readonly #listeners = new Set<(reason: string) => void>();
  #confirming: Promise<void> | undefined;
  readonly #unanswered = new Map<Redis, number>();
  readonly #renewal: NodeJS.Timeout;
  /** `performance.now()` of the last renewal; if that is long ago, this process was stopped. */
  #renewedAt = performance.now();

  private constructor(
    node: RedisNode,
    [commands, changes]: readonly [Redis, Redis],
    identity: Identity,
    electors: MasterElectors,
  ) {
    this.node = node;
    this.commands = commands;
    this.changes = changes;
    this.#identity = identity;
    this.#electors = electors;
    this.lost = new Promise((resolve) => (this.#lose = resolve));
    for (const connection of [commands, changes])
      connection.once('close', () => this.end('the connection was closed'));
    this.#renewal = setInterval(() => this.#renew(), CONFIRM_MS).unref();
  }

  /** @param cancelled aborted when the connection is no longer needed */
  static async open(
    { node, epoch }: AgreedMaster,
    settings: RedisSettings,
    electors: MasterElectors,
    cancelled: AbortSignal,
  ): Promise<MasterSession> {
    const commands = connectionTo(node, settings);
    const changes = settings.acknowledge === null ? commands : connectionTo(node, settings);
    const connections = new Set([commands, changes]);
    const giveUp = () => connections.forEach((each) => each.disconnect());
    const timer = setTimeout(giveUp, OPEN_MS);
    cancelled.addEventListener('abort', giveUp);
    let session: MasterSession | undefined;
    try {
      await Promise.all([...connections].map(open));
      const [identity, other] = [await readIdentity(commands), await readIdentity(changes)];
      if (identity.runId !== other.runId) throw new Error('two connections lead to different servers');
      session = new MasterSession(node, [commands, changes], { ...identity, epoch }, electors);
      await session.confirm();
      return session;
    } catch (error) {
      session?.end('not confirmed');
      giveUp();
      throw error;
    } finally {
      clearTimeout(timer);
      cancelled.removeEventListener('abort', giveUp);
    }
  }

  get identity(): Identity {
    return this.#identity;
  }

  /** Whether it ended for good. One that is merely not held may still be confirmed again. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** When the question of the latest confirmation was asked. */
  get confirmedAt(): number {
    return this.#hasEnded ? -Infinity : this.#confirmedAt;
  }

  isHeld(): boolean {
    return performance.now() < this.confirmedAt + LEASE_MS;
  }

  /** Returns a function that removes the listener; a callback of {@link lost} could not be removed. */
  onLost(listener: (reason: string) => void): () => void {
    if (this.#hasEnded) void this.lost.then(listener);
    else this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Asks the server and its electors, and confirms it as the master. @throws Error if it is not the master */
  async confirm(): Promise<void> {
    this.#confirming ??= this.#requestConfirmation().finally(() => (this.#confirming = undefined));
    return this.#confirming;
  }

  /** Resolves when the server was confirmed by a question asked after a time. */
  async confirmSince(time: number): Promise<void> {
    // A question in flight may have been asked earlier.
    while (!this.isHeld() || this.#confirmedAt < time) await this.confirm();
  }

  /** Several missing replies in a row end the session. A refusal (no memory, no permission) is a reply. */
  async answered<T>(connection: Redis, answer: Promise<T>): Promise<T> {
    let count = 0;
    try {
      return await answer;
    } catch (error) {
      if (!(error instanceof ReplyError)) count = (this.#unanswered.get(connection) ?? 0) + 1;
      throw error;
    } finally {
      this.#unanswered.set(connection, count);
      if (count >= UNANSWERED) this.end(`${count} requests in a row got no response`);
    }
  }

  reconsider(): void {
    this.#askElectors().catch(() => undefined);
  }

  end(reason: string): void {
    if (this.#hasEnded) return;
    clearInterval(this.#renewal);
    this.#hasEnded = true;
    this.#lose(reason);
    for (const listener of this.#listeners) listener(reason);
    for (const connection of [this.commands, this.changes]) connection.disconnect();
  }

  /** Only the electors: a server that was stopped must not keep this process from leaving it. */
  async #askElectors(): Promise<void> {
    const { node, epoch } = await this.#electors.findMaster();
    const isSame = addressText(node) === addressText(this.node);
    if (isSame && epoch === this.#identity.epoch) return;
    this.end(isSame ? 'it was chosen again by a failover' : `${addressText(node)} is the master now`);
    throw new NotMaster('another server is, or was, the master');
  }

  async #askServer(): Promise<void> {
    try {
      const { replicationId, offset } = await readHistory(this.commands);
      if (replicationId !== this.#identity.replicationId) throw new NotMaster('its history was replaced');
      if (offset < this.#identity.offset) throw new NotMaster('its history went back');
      this.#identity = { ...this.#identity, offset };
    } catch (error) {
      if (error instanceof NotMaster) this.end(error.message);
      throw error;
    }
  }

  async #requestConfirmation(): Promise<void> {
    const askedAt = performance.now();
    await Promise.all([this.#askServer(), this.#askElectors()]);
    this.#confirmedAt = Math.max(this.#confirmedAt, askedAt);
    if (!this.isHeld()) throw new Error('the master was not confirmed in time');
  }

  #renew(): void {
    const now = performance.now();
    const stopped = now - this.#renewedAt > 2 * CONFIRM_MS;
    this.#renewedAt = now;
    // A reply in flight still arrives or fails; a busy machine must not reconnect.
    if (this.isHeld() || stopped || this.#confirming !== undefined) this.confirm().catch(() => undefined);
    else this.end('the master was not confirmed in time');
  }
}
