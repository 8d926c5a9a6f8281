import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** The name in the certificate. */
export const HOST = 'localhost';

/**
 * Returns the self-signed certificate of a run, created on first use.
 *
 * @param {string} folder
 */
export function certificateIn(folder) {
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => join(folder, name));
  if (!existsSync(cert)) {
    const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1'];
    const names = ['-subj', `/CN=${HOST}`, '-addext', `subjectAltName=DNS:${HOST},IP:127.0.0.1`];
    execFileSync('openssl', [...args, '-keyout', key, '-out', cert, ...names], { stdio: 'pipe' });
  }
  return { cert, key };
} // prettier-ignore
