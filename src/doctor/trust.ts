import { once } from 'node:events';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { bytesOfAddress } from '../domain/address.js';
import { type Destination, PROBE_MS, tlsOptions } from './exchange.js';

/** Opens a TLS connection, passes it to `use`, and closes it. @throws Error of the handshake */
export async function withTls<T>(
  to: Destination,
  more: ConnectionOptions,
  use: (socket: TLSSocket) => T,
): Promise<T> {
  const socket = connect(tlsOptions(to, more));
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(PROBE_MS) });
    return use(socket);
  } finally {
    socket.on('error', () => undefined);
    socket.destroy();
  }
}

/** Returns why a token must not be sent to a destination; empty when it may. */
export async function reasonForDistrust(to: Destination, ca: string | undefined): Promise<string> {
  if (!to.isTls) return '';
  const more: ConnectionOptions = { minVersion: 'TLSv1.2', ...(ca === undefined ? {} : { ca }) };
  const trial = withTls(to, more, (socket) => (socket.authorized ? '' : String(socket.authorizationError)));
  const fault = await trial.catch(() => undefined);
  if (fault === undefined) return 'the token was not sent, because no connection with TLS 1.2 or newer could be made';
  return fault === '' ? '' : `the token was not sent, because the certificate is not trusted (${fault})`;
} // prettier-ignore

/** Whether an address is a loopback address. */
export function isLoopback(address: string): boolean {
  return bytesOfAddress(address)[0] === 127 || address === '::1';
}

/** Returns the DNS names of a certificate, without wildcards. @throws Error of the handshake */
export async function certificateNames(to: Destination): Promise<string[]> {
  const { subjectaltname = '' } = await withTls(to, {}, (socket) => socket.getPeerCertificate());
  return [...subjectaltname.matchAll(/DNS:([\w.-]+)/g)].map(([, name = '']) => name);
}
