import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describeSystemError } from '../domain/system-error.js';

/** What a file was read as, or what is wrong with it, in words that follow its name. No content of it is shown. */
export type Read<T> = { readonly value: T } | { readonly fault: string };

/** What is wrong with a path that leads nowhere. */
export const NO_FILE = 'there is no such file; write its path, from the folder of this file';

/** The text of a file. The fault does not say its name: somebody may have written a key in its place. */
export function readPem(file: string): Read<string> {
  try {
    return { value: readFileSync(file, 'latin1') };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return { fault: code === 'ENOENT' ? NO_FILE : `the file cannot be read: ${describeSystemError(error)}` };
  }
}

const CERTIFICATE = /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]*-----END [^-]*-----/g;

/** The certificates of a text, one or more, in their order. */
export function certificatesIn(text: string): Read<X509Certificate[]> {
  const blocks = text.match(CERTIFICATE) ?? [];
  if (blocks.length === 0)
    return { fault: 'the file has no certificate in PEM form ("-----BEGIN CERTIFICATE-----")' };
  const certificates: X509Certificate[] = [];
  for (const [i, block] of blocks.entries()) {
    try {
      certificates.push(new X509Certificate(block));
    } catch {
      return { fault: `certificate ${i + 1} of the file cannot be read` };
    }
  }
  return { value: certificates };
}

export function privateKeyIn(text: string): Read<KeyObject> {
  if (text.includes('ENCRYPTED'))
    return {
      fault: 'the key is encrypted; write it without a passphrase ("openssl pkey -in KEY -out FILE")',
    };
  try {
    return { value: createPrivateKey(text) };
  } catch {
    return { fault: 'the file has no private key in PEM form ("-----BEGIN PRIVATE KEY-----")' };
  }
}
