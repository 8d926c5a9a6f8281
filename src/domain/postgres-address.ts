import { isHost } from '../util/addresses.js';
import { decode } from './redis-address.js';

/** A PostgreSQL server with the connection options from its `postgres://` URL. */
export interface PostgresServer {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user?: string;
  readonly password?: string;
  /** Whether it asks for TLS. */
  readonly tls: boolean;
}

const DEFAULT_PORT = 5432;
/** Values of the parameter `sslmode`, and whether they ask for TLS. Certificates are always verified. */
const SSL_MODES: Readonly<Record<string, boolean>> = {
  '': false,
  disable: false,
  require: true,
  'verify-ca': true,
  'verify-full': true,
};

/** Parses `postgres://[user[:password]@]host[:port]/database[?sslmode=MODE]`; undefined for anything else. */
export function parsePostgresUrl(text: string): PostgresServer | undefined {
  if (!/^postgres(?:ql)?:\/\//.test(text) || !URL.canParse(text)) return undefined;
  const { username, password, host, hostname, port, pathname, search, hash } = new URL(text);
  const [user, secret, database] = [decode(username), decode(password), decode(pathname.slice(1))];
  const [, mode = ''] = /^\?sslmode=([a-z-]+)$/.exec(search) ?? [];
  const tls = SSL_MODES[mode];
  if (!isHost(host) || user === undefined || secret === undefined || tls === undefined) return undefined;
  if (!database || database.includes('/') || (mode === '' && search !== '') || hash !== '') return undefined;
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? DEFAULT_PORT : Number(port),
    database,
    ...(user === '' ? {} : { user }),
    ...(secret === '' ? {} : { password: secret }),
    tls,
  };
}
