import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

/** A host with an optional port, as `Host` has it. */
const HOST = /^(\[[0-9A-Fa-f:.]+\]|[^:[\]]+)(?::\d{1,5})?$/;

/** Ends of names that no public DNS has (RFC 6761, RFC 9476), those of Kubernetes among them. */
const PRIVATE = /\.(?:localhost|internal|svc|svc\.cluster\.local)$/;

/** Says why a request to the admin port is refused; undefined when it is not. */
export type AdminGuard = (req: IncomingMessage) => string | undefined;

/**
 * Makes the guard of the admin port, which has no credential: what a browser asks because of a page from elsewhere is
 * refused, reads included.
 *
 * A page can give its own name the address of this port (DNS rebinding); then the port is of the page's origin and only
 * `Host` tells. So names count that nobody can register: addresses, names without a dot, and those of private domains.
 *
 * @param hosts further names, `admin.host` and `admin.hosts`
 */
export function createAdminGuard(hosts: readonly string[]): AdminGuard {
  const known = new Set(hosts.map((host) => host.toLowerCase()));
  return ({ headers }) => {
    const { host, origin, 'sec-fetch-site': site } = headers;
    // Only HTTP/1.0 may leave it out, which no browser speaks.
    if (host !== undefined && !isOwnHost(host, known))
      return `the admin port does not answer to this host; add its name to admin.hosts, or ask by its address`;
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
  // A last label of digits would be an address in a form that is read in several ways (WHATWG URL 4.3).
  return PRIVATE.test(name) || (!name.includes('.') && !/^(?:0x[0-9a-f]*|\d+)$/.test(name));
}
