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
import { connectionToSentinel, hostAndPort, questionFailed } from './connect.js';
import type { RedisSettings } from './settings.js';

/** Timeout for a sentinel's reply, in milliseconds; a slower sentinel is not counted. */
const ANSWER_MS = 400;
const SWITCHED = '+switch-master';

interface Opinion {
  readonly address: RedisAddress;
  readonly epoch: number;
  /** Whether it cannot reach the master itself, so that a failover may be in progress. */
  readonly down: boolean;
}

/**
 * The master is the server that a majority names, by the latest failover known to any: the sentinel
 * that leads it knows first, and one that was cut off still names the old master.
 */
export class Sentinels implements MasterElectors {
  readonly #master: string;
  readonly #sentinels: readonly Redis[];
  readonly #subscribers: readonly Redis[];

  constructor(
    { master, nodes }: NonNullable<RedisSettings['sentinel']>,
    settings: RedisSettings,
    onChange: () => void,
  ) {
    this.#master = master;
    const connect = (node: string) => connectionToSentinel(hostAndPort(node), settings, ANSWER_MS);
    this.#sentinels = nodes.map(connect);
    this.#subscribers = nodes.map(connect);
    for (const subscriber of this.#subscribers) {
      // A sentinel that cannot be subscribed to is still asked.
      subscriber.on('ready', () => void subscriber.subscribe(SWITCHED).catch(() => undefined));
      subscriber.on('message', onChange);
    }
  }

  async findMaster(): Promise<AgreedMaster> {
    const members = this.#sentinels.length;
    const hearing = await hear(this.#sentinels.map((sentinel) => this.#query(sentinel)));
    const { opinions } = hearing;
    const newest = Math.max(...opinions.map(({ epoch }) => epoch));
    const heard = opinions.filter(({ epoch, down }) => epoch === newest && !down);
    const agreed = majority(heard, members, ({ address }) => addressText(address));
    if (agreed !== undefined) return { node: agreed.address, epoch: newest };
    throw noMajority(hearing, members, 'sentinels', 'the sentinels do not agree on a master that is up');
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
