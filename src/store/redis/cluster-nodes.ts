import type { Redis } from 'ioredis';
import type { RedisAddress } from '../../domain/urls.js';
import {
  addressText,
  type AgreedMaster,
  hear,
  majority,
  type MasterElectors,
  noMajority,
} from './agreement.js';
import { connectionToClusterNode, hostAndPort, questionFailed } from './connect.js';
import type { RedisSettings } from './settings.js';

/** Timeout for a node's reply, in milliseconds; a slower node is not counted. */
const ANSWER_MS = 400;

interface Opinion {
  readonly owner: RedisAddress;
  readonly epoch: number;
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
    const members = this.#nodes.size;
    const hearing = await hear([...this.#nodes.values()].map((node) => this.#query(node)));
    const { opinions } = hearing;
    const newest = Math.max(...opinions.map(({ epoch }) => epoch));
    const heard = opinions.filter(({ epoch }) => epoch === newest);
    const agreed = majority(heard, members, ({ owner }) => addressText(owner));
    if (agreed !== undefined) {
      this.#use(agreed.nodes);
      // An elected node was a replica, so it begins a new history.
      return { node: agreed.owner, epoch: 0 };
    }
    // All nodes may have moved; start again with the configured ones.
    if (opinions.length === 0) this.#use(this.#configured);
    throw noMajority(
      hearing,
      members,
      'cluster nodes',
      'the nodes of the cluster do not agree on an owner of the slot',
    );
  }

  close(): void {
    for (const node of this.#nodes.values()) node.disconnect();
  }

  #use(addresses: readonly RedisAddress[]): void {
    const before = this.#nodes;
    this.#nodes = new Map(
      addresses.map((address) => {
        const name = addressText(address);
        return [name, before.get(name) ?? connectionToClusterNode(address, this.#settings, ANSWER_MS)];
      }),
    );
    for (const [name, node] of before) if (!this.#nodes.has(name)) node.disconnect();
  }

  async #query(node: Redis): Promise<Opinion> {
    try {
      this.#slot ??= await node.cluster('KEYSLOT', this.#key);
      const [ranges, info] = await Promise.all([node.cluster('SLOTS'), node.cluster('INFO')]);
      return opinionOf(ranges as unknown as SlotRange[], info, this.#slot, node.options.host ?? '');
    } catch (error) {
      throw questionFailed(node, error);
    }
  }
}

/** @param queriedHost for a node that does not know its own address */
function opinionOf(ranges: readonly SlotRange[], info: string, slot: number, queriedHost: string): Opinion {
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
    owner: addressOf(owner),
    epoch: Number(/^cluster_current_epoch:(\d+)/m.exec(info)?.[1] ?? 0),
    nodes: [...nodes.values()],
  };
}
