import { isIPv6 } from 'node:net';

/** A port from 1 to 65535. No leading zeros: some parsers read them as octal, others drop them. */
const PORT = '(?:[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d\\d|655[0-2]\\d|6553[0-5])';

const HOST = new RegExp(`^(?:\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._~-]+)(?::${PORT})?$`);

const BRACKET = 0x5b;

/**
 * Whether a text is a host name or IP literal with an optional port.
 *
 * See RFC 9110 7.2 and RFC 3986 3.2.2.
 */
export function isHost(text: string): boolean {
  if (!HOST.test(text)) return false;
  return text.charCodeAt(0) !== BRACKET || isIPv6(text.slice(1, text.indexOf(']')));
}
