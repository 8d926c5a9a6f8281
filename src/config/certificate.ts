import type { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import type { Fault } from './fault.js';
import { certificatesIn, privateKeyIn, type Read, readText } from './pem.js';
import type { Config } from './schema/config.js';
import type { Source } from './source.js';

/** TLS credentials of the public port, as text, so that every process uses the same. */
export interface ListenerCertificate {
  readonly cert: string;
  readonly key: string;
  /** CA certificates that client certificates are verified with, PEM; null when clients need none. */
  readonly clientCa: string | null;
  readonly expiresAt: number;
  readonly warnings: readonly string[];
}

type TlsFiles = NonNullable<Config['listen']['tls']>;
type Setting = keyof TlsFiles;

type Note = (setting: Setting, message: string) => void;

/**
 * Reads and checks the files of `listen.tls`. An expired certificate is only a warning: clients of a running
 * server say what is wrong.
 */
export function readCertificate(
  config: Config,
  source: Source,
  now: number,
): { readonly certificate: ListenerCertificate | null; readonly faults: readonly Fault[] } {
  const { tls } = config.listen;
  if (tls === null) return { certificate: null, faults: [] };
  const faults: Fault[] = [];
  const note: Note = (setting, message) =>
    faults.push(source.fault(['listen', 'tls', setting], `listen.tls.${setting}: ${message}`));
  const unwrap = <T>(setting: Setting, read: Read<T>): T | undefined => {
    if ('value' in read) return read.value;
    note(setting, read.fault);
    return undefined;
  };
  const text = (setting: Setting, file: string) => unwrap(setting, readText(file));
  const cert = text('cert', tls.cert);
  const key = text('key', tls.key);
  const clientCa = tls.client_ca === null ? null : text('client_ca', tls.client_ca);
  const chain = cert === undefined ? [] : (unwrap('cert', certificatesIn(cert)) ?? []);
  const privateKey = key === undefined ? undefined : unwrap('key', privateKeyIn(key));
  if (clientCa != null) unwrap('client_ca', certificatesIn(clientCa));
  const [own] = chain;
  if (own !== undefined && privateKey !== undefined && !own.checkPrivateKey(privateKey))
    note('key', 'the key does not match the certificate in listen.tls.cert');
  if (faults.length > 0 || cert === undefined || key === undefined || clientCa === undefined)
    return { certificate: null, faults };
  checkWithOpenSsl(cert, key, clientCa, note);
  const expiresAt = Math.min(...chain.map(({ validTo }) => Date.parse(validTo)));
  return { certificate: { cert, key, clientCa, expiresAt, warnings: warningsOf(chain, now) }, faults };
}

/** Reports what only OpenSSL detects: keys and signatures that are too weak for it. */
function checkWithOpenSsl(cert: string, key: string, ca: string | null, note: Note): void {
  try {
    createSecureContext({ cert, key, ca: ca ?? undefined });
  } catch (error) {
    note('cert', `OpenSSL refuses it (${error instanceof Error ? error.message : String(error)})`);
  }
}

function warningsOf(chain: readonly X509Certificate[], now: number): string[] {
  const warnings: string[] = [];
  for (const [i, each] of chain.entries()) {
    const name = `certificate ${i + 1} in listen.tls.cert`;
    const next = chain[i + 1];
    if (Date.parse(each.validTo) < now) warnings.push(`${name} expired at ${isoTime(each.validTo)}`);
    if (Date.parse(each.validFrom) > now)
      warnings.push(`${name} is not valid before ${isoTime(each.validFrom)}`);
    if (next !== undefined && !each.checkIssued(next))
      warnings.push(
        `${name} is not issued by the next one in the file; clients may not be able to verify the chain`,
      );
  }
  return warnings;
}

function isoTime(text: string): string {
  return new Date(text).toISOString();
}
