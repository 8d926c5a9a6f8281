export type UpstreamUrl = {
  /** Scheme, host and port, or `unix://` and the path; one spelling per address. */
  readonly origin: string;
  /**
   * Host and port for the Host header field. HTTP/1.1 requires the field for a socket, too (RFC 9112 3.2).
   */
  readonly host: string;
  readonly prefix: string;
} & ({ readonly socketPath: null; readonly url: URL } | { readonly socketPath: string; readonly url: null });

const SCHEME = 'unix://';
/** Size of `sun_path` on Linux without the trailing NUL; a longer path would be cut. */
const MAX_PATH = 107;
/**
 * Segments without what some programs decode (%), or take for the end of the path (?, #, :) or a user (@).
 */
const PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[!"$&-.0-9;->A-[\]-~]+)+$/;
export const SOCKET_URL_RULE =
  'unix:// and the absolute path of a socket, like unix:///run/api.sock: at most 107 printable ASCII characters without spaces, "%", "?", "#", ":", "@", "\\" and empty, "." or ".." segments';

/** A Unix socket in any notation: unix:/a, unix://a, http+unix://%2Fa, http://unix:/a:/path, /a. */
const SOCKET_LIKE = /^(?:(?:https?\+)?unix:|https?:\/\/unix:\/|\/)/i;

export function parseUpstreamUrl(text: string): UpstreamUrl | undefined {
  if (text.startsWith(SCHEME)) {
    const socketPath = text.slice(SCHEME.length);
    if (socketPath.length > MAX_PATH || !PATH.test(socketPath)) return undefined;
    return { origin: text, host: 'localhost', prefix: '', socketPath, url: null };
  }
  if (isSocketLike(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const { protocol, origin, host, username, password, search, hash } = url;
  if (!/^https?:$/.test(protocol) || `${username}${password}${search}${hash}` !== '') return undefined;
  return { origin, host, prefix: url.pathname.replace(/\/+$/, ''), socketPath: null, url };
}

/** @throws TypeError if it is not the URL of an upstream */
export function upstreamUrl(text: string): UpstreamUrl {
  const parsed = parseUpstreamUrl(text);
  if (parsed === undefined) throw new TypeError('expected the URL of an upstream');
  return parsed;
}

export function isSocketLike(text: string): boolean {
  return SOCKET_LIKE.test(text);
}
