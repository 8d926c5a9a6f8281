import type { ListenerCertificate } from '../../config/certificate.js';
import type { Config } from '../../config/schema/config.js';
import type { Log } from '../../observe/log.js';
import { setCertificateExpiry } from '../../observe/metrics.js';

/** Tells operators of the certificate that serves from now on: when it expires, and what is not well with it. */
export function tellCertificate(certificate: ListenerCertificate | null, log: Log): void {
  if (certificate === null) return;
  setCertificateExpiry(certificate.expiresAt / 1000);
  for (const warning of certificate.warnings)
    log.warn({ warning }, 'TLS certificate of the public port needs attention');
}

/** The files of the public port's TLS, for whoever watches them. */
export function certificateFiles({ listen: { tls } }: Config): string[] {
  return tls === null ? [] : [tls.cert, tls.key, tls.client_ca].filter((file) => file !== null);
}
