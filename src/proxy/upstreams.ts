import { Pool } from 'undici';
import { Places } from './places.js';

/** Settings of one upstream; times in milliseconds. */
export interface UpstreamSettings {
  readonly url: string;
  readonly connect_timeout: number;
  readonly response_timeout: number;
  readonly idle_timeout: number;
  readonly retries: number;
  readonly max_connections: number;
  readonly max_waiting: number;
  readonly wait_timeout: number;
}

/** An upstream with its connections. */
export class Upstream {
  readonly url: URL;
  readonly settings: UpstreamSettings;
  readonly pool: Pool;
  /** Path that is put in front of every target; no slash at its end. */
  readonly prefix: string;
  readonly places: Places;

  constructor(settings: UpstreamSettings) {
    this.settings = settings;
    this.url = new URL(settings.url);
    this.prefix = this.url.pathname.replace(/\/+$/, '');
    this.places = new Places(settings.max_connections, settings.max_waiting, settings.wait_timeout);
    this.pool = new Pool(this.url.origin, {
      connections: settings.max_connections,
      pipelining: 1,
      connect: { timeout: settings.connect_timeout },
      headersTimeout: settings.response_timeout,
      bodyTimeout: settings.idle_timeout,
    });
  }
}

/** The upstreams by name. */
export interface Upstreams {
  get(name: string): Upstream | undefined;
  /** Requests that are on their way to any of them. */
  pending(): number;
  /** What is on its way to each of them. */
  loads(): { readonly name: string; readonly active: number; readonly waiting: number }[];
  /** Cuts every connection. */
  close(): Promise<void>;
}

/** Opens a pool for each upstream. Nothing connects before the first request. */
export function createUpstreams(settings: Readonly<Record<string, UpstreamSettings>>): Upstreams {
  const upstreams = new Map(Object.entries(settings).map(([name, each]) => [name, new Upstream(each)]));
  return {
    get: (name) => upstreams.get(name),
    pending: () => [...upstreams.values()].reduce((sum, upstream) => sum + upstream.places.pending, 0),
    loads: () =>
      [...upstreams].map(([name, { places }]) => ({
        name,
        active: places.pending - places.waiting,
        waiting: places.waiting,
      })),
    close: async () => {
      await Promise.all([...upstreams.values()].map((upstream) => upstream.pool.destroy()));
    },
  };
}
