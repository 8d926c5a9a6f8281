import { posix } from 'node:path';

/** Where an upstream listens, as its URL says it. */
export type UpstreamUrl = {
  /** Scheme, host and port, or `unix://` and the path: one text for one address. */
  readonly origin: string;
  /** Host and port as a Host field holds them. HTTP/1.1 wants one of a socket too (RFC 9112 3.2). */
  readonly host: string;
  /** Path that is put in front of every target; no slash at its end. */
  readonly prefix: string;
} & (
  | { readonly socketPath: null; readonly url: URL }
  /** Path of a Unix socket, byte for byte. */
  | { readonly socketPath: string; readonly url: null }
);

const SCHEME = 'unix://';
/** `sun_path` of Linux, less the NUL at its end. A longer path would be cut off, and name another file. */
const MAX_PATH = 107;
/** Segments of printable ASCII without what some program decodes (%), or takes for the end of the path (?, #, :) or a user (@). */
const PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[!"$&-.0-9;->A-[\]-~]+)+$/;
/** The rule above in words. */
export const SOCKET_URL_RULE =
  'unix:// and the absolute path of a socket, like unix:///run/api.sock: at most 107 printable ASCII characters without spaces, "%", "?", "#", ":", "@", "\\" and empty, "." or ".." segments';

/** A socket, as other programs write it: unix:/a, unix://a, http+unix://%2Fa, http://unix:/a:/path, or its path alone. */
const SOCKET_LIKE =
  /^(?:(?:https?\+)?unix:(?:\/\/localhost(?=\/))?|https?:\/\/unix:(?=\/)|(?=\/))([^:?#@]*)/i;

/** Reads the URL of an upstream. undefined when a text is none. */
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

/** Reads a URL that was checked. @throws TypeError when it is none of an upstream */
export function upstreamUrl(text: string): UpstreamUrl {
  const parsed = parseUpstreamUrl(text);
  if (parsed === undefined) throw new TypeError('expected the URL of an upstream');
  return parsed;
}

/** Whether a text is meant as a Unix socket, however it is written. */
export function isSocketLike(text: string): boolean {
  return SOCKET_LIKE.test(text);
}

/** The URL of the Unix socket that a text is meant as; undefined when that can't be told. */
export function meantSocketUrl(text: string): string | undefined {
  const [, rest = ''] = SOCKET_LIKE.exec(text) ?? [];
  if (text.includes('@')) return undefined;
  const meant = SCHEME + posix.normalize(`/${rest.replaceAll(/%2f/gi, '/')}`).replace(/(?<=.)\/$/, '');
  return parseUpstreamUrl(meant) === undefined ? undefined : meant;
}
