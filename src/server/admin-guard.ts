import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

/** A host with an optional port, as in the `Host` field. */
const HOST = /^(\[[0-9A-Fa-f:.]+\]|[^:[\]]+)(?::\d{1,5})?$/;

/** Suffixes that public DNS never has (RFC 6761, RFC 9476), including those of Kubernetes. */
const PRIVATE = /\.(?:localhost|internal|svc|svc\.cluster\.local)$/;

type AdminGuard = (req: IncomingMessage) => string | undefined;

/**
 * Refuses what a browser sends on behalf of a page from elsewhere, reads included: a page can point its own
 * name at this port (DNS rebinding), and only `Host` reveals it. So only names are accepted that nobody can
 * register: addresses, names without a dot, and names in private domains.
 * @param hosts further accepted names: `admin.host` and `admin.hosts`
 */
export function createAdminGuard(hosts: readonly string[]): AdminGuard {
  const known = new Set(hosts.map((host) => host.toLowerCase()));
  return ({ headers }) => {
    const { host, origin, 'sec-fetch-site': site } = headers;
    // Only HTTP/1.0 may omit it, which no browser uses.
    if (host !== undefined && !isOwnHost(host, known))
      return `the admin port does not accept this host name; add it to admin.hosts, or use the IP address`;
    if (origin !== undefined && origin.toLowerCase() !== `http://${host?.toLowerCase()}`)
      return 'the request comes from another origin';
    if (site !== undefined && site !== 'same-origin' && site !== 'none')
      return 'the request comes from another site';
    return undefined;
  };
}

function isOwnHost(field: string, known: ReadonlySet<string>): boolean {
  const name = HOST.exec(field)?.[1]?.toLowerCase();
  if (name === undefined) return false;
  if (name.startsWith('[')) return isIP(name.slice(1, -1)) === 6;
  if (isIP(name) === 4 || known.has(name)) return true;
  // A last label of digits would be an address that readers parse differently (WHATWG URL 4.3).
  return PRIVATE.test(name) || (!name.includes('.') && !/^(?:0x[0-9a-f]*|\d+)$/.test(name));
}
