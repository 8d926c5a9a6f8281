import { getSystemErrorMap } from 'node:util';

const UNTRUSTED = 'the certificate is not from a trusted authority';

const WORDS = new Map([
  ...getSystemErrorMap().values(),
  ['CERT_HAS_EXPIRED', 'the certificate has expired'],
  ['CERT_NOT_YET_VALID', 'the certificate is not valid yet'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', UNTRUSTED],
  ['EAI_AGAIN', 'host name lookup failed'],
  ['EISDIR', 'is a directory'],
  ['ENOTFOUND', 'unknown host name'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'the certificate is for another name'],
  ['SELF_SIGNED_CERT_IN_CHAIN', UNTRUSTED],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', UNTRUSTED],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', UNTRUSTED],
]);

/** Describes a system error with its code: `no such file or directory (ENOENT)`. */
export function describeSystemError(error: unknown): string {
  const { name, code, message } = error as NodeJS.ErrnoException;
  if (name === 'TimeoutError') return 'no complete response in time';
  // The messages of undici are more informative than its codes. Those of aborted signals are numbers.
  if (typeof code !== 'string' || code.startsWith('UND_')) return message;
  const words = WORDS.get(code);
  return words === undefined ? code : `${words} (${code})`;
}

export class ConnectionFailed extends Error {
  readonly address: string;
  readonly reason: string;
  /** The system error code; undefined if the server itself refused or did not answer. */
  readonly systemCode: string | undefined;

  /** @param cause undefined if the server did not answer in time */
  constructor(address: string, cause: NodeJS.ErrnoException | undefined) {
    const reason = cause === undefined ? 'no response in time' : describeSystemError(cause);
    super(`${address}: ${reason}`, { cause });
    this.address = address;
    this.reason = reason;
    this.systemCode = typeof cause?.code === 'string' ? cause.code : undefined;
  }
}

/** Returns log fields that name the server of a failed connection; empty for any other error. */
export function connectionFields(error: unknown): { address?: string; code?: string } {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (!(cause instanceof ConnectionFailed)) continue;
    return { address: cause.address, ...(cause.systemCode === undefined ? {} : { code: cause.systemCode }) };
  }
  return {};
}
