/** Settings of `store` with `type: redis`. One of `url`, `cluster` and `sentinel` is given. */
export interface RedisSettings {
  readonly url: string | null;
  readonly cluster: readonly string[] | null;
  readonly sentinel: { readonly master: string; readonly nodes: readonly string[] } | null;
  /** The prefix of every key; all keys of one prefix are in one slot of a cluster. */
  readonly prefix: string;
  /** With `url: rediss://` or these, connections are TLS. PEM texts. */
  readonly tls: RedisTls | null;
  readonly username: string | null;
  readonly password: string | null;
  /** Replicas that have to have a change before it is acknowledged, and milliseconds to wait for them; null: none. */
  readonly acknowledge?: { readonly replicas: number; readonly timeout: number } | null | undefined;
  /** Milliseconds that a command may take. */
  readonly command_timeout: number;
}

interface RedisTls {
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
  readonly server_name: string | null;
}
