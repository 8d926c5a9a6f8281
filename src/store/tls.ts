import { isIP } from 'node:net';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Config } from '../config/schema/config.js';
import { readRegularFile } from '../files/files.js';

/** The settings `store.tls`. */
type TlsSettings = Extract<Config['store'], { type: 'redis' }>['tls'];

/**
 * Returns the options of a TLS connection to the host of a store. The files are read each time,
 * because they may have been renewed.
 *
 * @throws Error if the files cannot be used
 */
export function tlsOptions(
  settings: TlsSettings,
  host: string,
): { secureContext: SecureContext; servername?: string } {
  const { ca = null, cert = null, key = null, server_name: name = null } = settings ?? {};
  // A server may choose its certificate by the name of the host.
  const servername = name ?? (isIP(host) === 0 ? host : null);
  try {
    const secureContext = createSecureContext({
      ...(ca === null ? {} : { ca: readRegularFile(ca) }),
      ...(cert === null ? {} : { cert: readRegularFile(cert) }),
      ...(key === null ? {} : { key: readRegularFile(key) }),
    });
    return { secureContext, ...(servername === null ? {} : { servername }) };
  } catch (error) {
    throw new Error(`the files of store.tls cannot be used: ${(error as Error).message}`, { cause: error });
  }
}
