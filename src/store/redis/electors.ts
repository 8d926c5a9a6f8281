import type { Redis } from 'ioredis';
import type { RedisAddress, RedisNode } from '../../domain/urls.js';
import {
  addressText,
  connectionToElector,
  hostAndPort,
  questionFailed,
  type RedisSettings,
} from './connect.js';

export interface AgreedMaster {
  readonly node: RedisNode;
  /**
   * Number of the failover; 0 where a new master always begins a new history. Sentinels may choose a
   * server again that never learned it was replaced, without what the master in between had.
   */
  readonly epoch: number;
}

export interface MasterElectors {
  /** @throws Error if too few answer or they do not agree */
  findMaster(): Promise<AgreedMaster>;
  close(): void;
}

interface Opinion {
  readonly address: RedisAddress;
  readonly epoch: number;
  /** Whether it cannot reach the master itself, so that a failover may be in progress. */
  readonly down?: boolean;
}

/**
 * Returns the opinion of a majority of all members, by the latest election known to any.
 *
 * @param voters their name in the plural
 * @throws Error if too few answered or they do not agree
 */
function agreed<T extends Opinion>(voters: string, answers: readonly PromiseSettledResult<T>[]): T {
  const members = answers.length;
  const opinions = answers.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  const newest = Math.max(...opinions.map(({ epoch }) => epoch));
  const counts = new Map<string, number>();
  for (const opinion of opinions.filter(({ epoch, down }) => epoch === newest && down !== true)) {
    const name = addressText(opinion.address);
    const count = (counts.get(name) ?? 0) + 1;
    if (count * 2 > members) return opinion;
    counts.set(name, count);
  }
  const failed = answers.find((each) => each.status === 'rejected');
  const cause = opinions.length * 2 > members ? undefined : (failed?.reason as Error | undefined);
  const reason = cause?.message ?? 'they do not agree on a master that is up';
  throw new Error(`${opinions.length} of ${members} ${voters} responded; ${reason}`, { cause });
}

/** Timeout for the reply of a sentinel or node, in milliseconds; a slower one is not counted. */
const ANSWER_MS = 400;
const SWITCHED = '+switch-master';

/**
 * The master is the server that a majority names, by the latest failover known to any: the sentinel
 * that leads it knows first, and one that was cut off still names the old master.
 */
export class Sentinels implements MasterElectors {
  readonly #master: string;
  readonly #sentinels: readonly Redis[];
  readonly #subscribers: readonly Redis[];

  constructor(
    { master, nodes, username, password }: NonNullable<RedisSettings['sentinel']>,
    settings: RedisSettings,
    onChange: () => void,
  ) {
    this.#master = master;
    // Sentinels do not have the store's user: they have credentials of their own, or none.
    const own = { ...settings, username, password };
    const connect = (node: string) => connectionToElector(hostAndPort(node), own, ANSWER_MS);
    this.#sentinels = nodes.map(connect);
    this.#subscribers = nodes.map(connect);
    for (const subscriber of this.#subscribers) {
      // A sentinel that cannot be subscribed to is still asked.
      subscriber.on('ready', () => void subscriber.subscribe(SWITCHED).catch(() => undefined));
      subscriber.on('message', onChange);
    }
  }

  async findMaster(): Promise<AgreedMaster> {
    const answers = await Promise.allSettled(this.#sentinels.map((sentinel) => this.#query(sentinel)));
    const { address, epoch } = agreed('sentinels', answers);
    return { node: address, epoch };
  }

  close(): void {
    for (const connection of [...this.#sentinels, ...this.#subscribers]) connection.disconnect();
  }

  async #query(sentinel: Redis): Promise<Opinion> {
    try {
      const [address, record] = await Promise.all([
        sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', this.#master),
        sentinel.call('SENTINEL', 'MASTER', this.#master),
      ]);
      return opinionOf(address as string[] | null, record as string[]);
    } catch (error) {
      throw questionFailed(sentinel, error);
    }
  }
}

function opinionOf(address: readonly string[] | null, record: readonly string[]): Opinion {
  const field = (name: string) => record[record.indexOf(name) + 1] ?? '';
  const [host = '', port = ''] = address ?? [];
  if (host === '') throw new Error('the sentinel knows no such master');
  // While it leads a failover, a sentinel names the new master but shows the record of the old one.
  const isOfRecord = host === field('ip') && port === field('port');
  return {
    address: { host, port: Number(port) },
    epoch: Number(field('config-epoch')),
    down: isOfRecord && /\b[so]_down\b/.test(field('flags')),
  };
}

interface SlotOpinion extends Opinion {
  readonly nodes: readonly RedisAddress[];
}

type SlotRange = [from: number, to: number, ...nodes: [host: string | null, port: number][]];

/**
 * The master is the owner of the slot that a majority names, by the latest election known to any.
 * A node that was cut off or stopped names itself.
 */
export class ClusterNodes implements MasterElectors {
  readonly #configured: readonly RedisAddress[];
  readonly #settings: RedisSettings;
  readonly #key: string;
  #slot: number | undefined;
  #nodes: ReadonlyMap<string, Redis> = new Map();

  constructor(cluster: readonly string[], settings: RedisSettings, key: string) {
    this.#configured = cluster.map(hostAndPort);
    this.#settings = settings;
    this.#key = key;
    this.#use(this.#configured);
  }

  async findMaster(): Promise<AgreedMaster> {
    const answers = await Promise.allSettled([...this.#nodes.values()].map((node) => this.#query(node)));
    // All nodes may have moved; start again with the configured ones.
    if (answers.every(({ status }) => status === 'rejected')) this.#use(this.#configured);
    const { address, nodes } = agreed('cluster nodes', answers);
    this.#use(nodes);
    // An elected node was a replica, so it begins a new history.
    return { node: address, epoch: 0 };
  }

  close(): void {
    for (const node of this.#nodes.values()) node.disconnect();
  }

  #use(addresses: readonly RedisAddress[]): void {
    const before = this.#nodes;
    this.#nodes = new Map(
      addresses.map((address) => {
        const name = addressText(address);
        return [name, before.get(name) ?? connectionToElector(address, this.#settings, ANSWER_MS)];
      }),
    );
    for (const [name, node] of before) if (!this.#nodes.has(name)) node.disconnect();
  }

  async #query(node: Redis): Promise<SlotOpinion> {
    try {
      this.#slot ??= await node.cluster('KEYSLOT', this.#key);
      const [ranges, info] = await Promise.all([node.cluster('SLOTS'), node.cluster('INFO')]);
      return slotOwnerOf(ranges as unknown as SlotRange[], info, this.#slot, node.options.host ?? '');
    } catch (error) {
      throw questionFailed(node, error);
    }
  }
}

/** @param queriedHost for a node that does not know its own address */
function slotOwnerOf(
  ranges: readonly SlotRange[],
  info: string,
  slot: number,
  queriedHost: string,
): SlotOpinion {
  const addressOf = ([host, port]: [string | null, number]): RedisAddress => ({
    host: host === null || host === '' || host === '?' ? queriedHost : host,
    port,
  });
  const [, , owner] = ranges.find(([from, to]) => slot >= from && slot <= to) ?? [];
  if (owner === undefined) throw new Error('no node of the cluster holds the slot');
  const nodes = new Map<string, RedisAddress>();
  for (const [, , ...all] of ranges)
    for (const node of all.map(addressOf)) nodes.set(addressText(node), node);
  return {
    address: addressOf(owner),
    epoch: Number(/^cluster_current_epoch:(\d+)/m.exec(info)?.[1] ?? 0),
    nodes: [...nodes.values()],
  };
}
