// What one record may hold at most, whoever sends it. How many records there may be is configured.

/** Bytes of a User-Agent that are kept of the last use of a token or session. */
const MAX_USER_AGENT = 512;
/** Bytes of a client's address: more than any IPv6 address with a zone takes. */
const MAX_ADDRESS = 64;
/** Characters of the name of a token, user, customer or service. */
export const MAX_NAME = 255;
/** Services that one token may be limited to. */
export const MAX_SERVICES = 100;
/** Addresses and ranges that one token may be limited to. */
export const MAX_ADDRESSES = 100;

/** Whether a text may be the name of a token. */
export function isName(name: string): boolean {
  // \p{Cc}: control characters. The bidirectional ones could make a list show something else.
  return Array.from(name).length <= MAX_NAME && !/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u.test(name);
}

/** A client as records name it. */
export interface RecordedClient {
  readonly ip: string;
  /** null when it sent none. */
  readonly userAgent: string | null;
}

/** What is written down of a client, cut to what a record may hold. */
export function recordedClient(ip: string, userAgent: string | undefined): RecordedClient {
  return {
    ip: cut(ip, MAX_ADDRESS),
    userAgent: userAgent === undefined ? null : cut(userAgent, MAX_USER_AGENT),
  };
}

/** The beginning of a text that takes at most so many bytes of UTF-8. */
function cut(text: string, bytes: number): string {
  // No character of UTF-16 takes more than three bytes.
  if (text.length * 3 <= bytes || Buffer.byteLength(text) <= bytes) return text;
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(bytes));
  return text.slice(0, read);
}
