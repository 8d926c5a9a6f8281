import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import type { Add } from './fault.js';
import type { Config } from './schema/config.js';
import { describeSystemError } from '../util/system-error.js';
import { readRegularFile } from '../files/files.js';

/** TLS credentials of the public port, as text, so that every process uses the same. */
export interface ListenerCertificate {
  readonly cert: string;
  readonly key: string;
  /** CA certificates that client certificates are verified with, PEM; null when clients need none. */
  readonly clientCa: string | null;
  readonly expiresAt: number;
  readonly warnings: readonly string[];
}

type Setting = keyof NonNullable<Config['listen']['tls']>;
type Note = (setting: Setting, message: string) => void;

/** Reads and checks the files of `listen.tls`. An expired certificate is only a warning. */
export function readCertificate(
  { tls }: Config['listen'],
  now: number,
  add: Add,
): ListenerCertificate | null {
  if (tls === null) return null;
  let sound = true;
  const note: Note = (setting, message) => {
    sound = false;
    add(['listen', 'tls', setting], message);
  };
  const cert = parseFile('cert', tls.cert, certificatesIn, note);
  const key = parseFile('key', tls.key, privateKeyIn, note);
  const clientCa = parseFile('client_ca', tls.client_ca, certificatesIn, note);
  if (cert !== undefined && key !== undefined && !cert.parsed[0]?.checkPrivateKey(key.parsed))
    note('key', 'the key does not match the certificate in listen.tls.cert');
  if (!sound || cert === undefined || key === undefined) return null;
  const texts = { cert: cert.text, key: key.text, clientCa: clientCa?.text ?? null };
  checkWithOpenSsl(texts, note);
  const expiresAt = Math.min(...cert.parsed.map(({ validTo }) => Date.parse(validTo)));
  return { ...texts, expiresAt, warnings: warningsOf(cert.parsed, now) };
}

/**
 * Returns the text of a file and what it contains; undefined for a fault, which is noted, or without a file.
 * @param parse throws an Error that says what is wrong, and shows no content
 */
export function parseFile<Key, T>(
  setting: Key,
  file: string | null,
  parse: (text: string) => T,
  note: (setting: Key, message: string) => void,
): { readonly text: string; readonly parsed: T } | undefined {
  if (file === null) return undefined;
  try {
    const text = readText(file);
    return { text, parsed: parse(text) };
  } catch (error) {
    note(setting, (error as Error).message);
    return undefined;
  }
}

/** Reports what only OpenSSL detects: keys and signatures that are too weak for it. */
function checkWithOpenSsl(
  { cert, key, clientCa }: Pick<ListenerCertificate, 'cert' | 'key' | 'clientCa'>,
  note: Note,
): void {
  try {
    createSecureContext({ cert, key, ca: clientCa ?? undefined });
  } catch (error) {
    note('cert', `OpenSSL refuses it (${error instanceof Error ? error.message : String(error)})`);
  }
}

function warningsOf(chain: readonly X509Certificate[], now: number): string[] {
  const warnings: string[] = [];
  for (const [i, each] of chain.entries()) {
    const name = `certificate ${i + 1} in listen.tls.cert`;
    if (Date.parse(each.validTo) < now) warnings.push(`${name} expired at ${isoTime(each.validTo)}`);
    if (Date.parse(each.validFrom) > now)
      warnings.push(`${name} is not valid before ${isoTime(each.validFrom)}`);
  }
  return warnings;
}

function isoTime(text: string): string {
  return new Date(text).toISOString();
}

export const NO_FILE = 'file not found; write its path, relative to the folder of this file';

/** @throws Error without the path: someone may have written a key in its place */
function readText(file: string): string {
  try {
    return readRegularFile(file).toString('latin1');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const message = code === 'ENOENT' ? NO_FILE : `the file cannot be read: ${describeSystemError(cause)}`;
    throw new Error(message, { cause });
  }
}

const CERTIFICATE = /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]*-----END [^-]*-----/g;

function certificatesIn(text: string): X509Certificate[] {
  const blocks = text.match(CERTIFICATE) ?? [];
  if (blocks.length === 0)
    throw new Error('the file has no certificate in PEM form ("-----BEGIN CERTIFICATE-----")');
  return blocks.map((block, i) => {
    try {
      return new X509Certificate(block);
    } catch (cause) {
      throw new Error(`certificate ${i + 1} of the file cannot be read`, { cause });
    }
  });
}

export function privateKeyIn(text: string): KeyObject {
  if (text.includes('ENCRYPTED'))
    throw new Error('the key is encrypted; write it without a passphrase ("openssl pkey -in KEY -out FILE")');
  try {
    return createPrivateKey(text);
  } catch (cause) {
    throw new Error('the file has no private key in PEM form ("-----BEGIN PRIVATE KEY-----")', { cause });
  }
}

type ClientSetting = 'ca' | 'cert' | 'key';
type ClientFiles = Readonly<Partial<Record<ClientSetting, string | null>>>;

export function checkTlsFiles(
  files: ClientFiles | null,
  note: (setting: ClientSetting, message: string) => void,
): void {
  if (files === null) return;
  const { ca = null, cert = null, key = null } = files;
  parseFile('ca', ca, certificatesIn, note);
  const chain = parseFile('cert', cert, certificatesIn, note);
  const privateKey = parseFile('key', key, privateKeyIn, note);
  if (cert !== null && key === null) note('cert', 'a certificate needs its key; set key');
  if (key !== null && cert === null) note('key', 'a key needs its certificate; set cert');
  if (chain !== undefined && privateKey !== undefined && !chain.parsed[0]?.checkPrivateKey(privateKey.parsed))
    note('key', 'the key does not match the certificate in cert');
}
