import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { describeSystemError } from '../util/system-error.js';
import { readRegularFile } from '../files/regular-file.js';

/** The content of a file, or its fault, which shows no content. */
export type Read<T> = { readonly value: T } | { readonly fault: string };

export const NO_FILE = 'file not found; write its path, relative to the folder of this file';

/** The fault omits the path: someone may have written a key in its place. */
export function readText(file: string): Read<string> {
  try {
    return { value: readRegularFile(file).toString('latin1') };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return { fault: code === 'ENOENT' ? NO_FILE : `the file cannot be read: ${describeSystemError(error)}` };
  }
}

const CERTIFICATE = /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]*-----END [^-]*-----/g;

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

type Key = 'ca' | 'cert' | 'key';

/** Returns the faults of a TLS client's files, each with the setting that names the file. */
export function tlsFileFaults(files: Readonly<Record<Key, string | null>>): [Key, string][] {
  const faults: [Key, string][] = [];
  const read = <T>(key: Key, parse: (text: string) => Read<T>): T | undefined => {
    const file = files[key];
    if (file === null) return undefined;
    const text = readText(file);
    const parsed = 'fault' in text ? text : parse(text.value);
    if ('value' in parsed) return parsed.value;
    faults.push([key, parsed.fault]);
    return undefined;
  };
  read('ca', certificatesIn);
  const certificate = read('cert', certificatesIn)?.[0];
  const key = read('key', privateKeyIn);
  if (files.cert !== null && files.key === null)
    faults.push(['cert', 'a certificate needs its key; set key']);
  if (files.key !== null && files.cert === null)
    faults.push(['key', 'a key needs its certificate; set cert']);
  if (certificate !== undefined && key !== undefined && !certificate.checkPrivateKey(key)) {
    faults.push(['key', 'the key does not match the certificate in cert']);
  }
  return faults;
}
