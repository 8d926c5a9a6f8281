import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeClock } from './clock.js';
import { rememberSecret } from './secrets.js';

/** Paths of a certificate and its key. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

function openssl(folder: string, ...args: string[]): void {
  execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
}

/**
 * Creates a self-signed certificate for loopback and host names.
 * @param args further arguments for openssl, like `-days`
 */
export function selfSigned(folder: string, name: string, args: readonly string[] = ['-days', '30'], hosts = [name]): Certificate {
  openssl(folder, 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key.pem`,
    '-out', `${name}.pem`, '-subj', `/CN=${name}`, '-addext', `subjectAltName=${['DNS:localhost,IP:127.0.0.1', ...hosts.map((host) => `DNS:${host}`)].join()}`, ...args);
  return remembered(folder, name);
} // prettier-ignore

/** Creates a certificate for loopback that is not valid for another 10 days. */
export function early(folder: string, name: string): Certificate {
  const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key.pem`,
    '-out', `${name}.pem`, '-subj', `/CN=${name}`, '-days', '30', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  const clock = makeClock(folder);
  clock.set('+10d');
  execFileSync('openssl', args, { cwd: folder, stdio: 'pipe', env: { ...process.env, ...clock.env } });
  return remembered(folder, name);
} // prettier-ignore

/** Creates an expired certificate for loopback. */
export function expired(folder: string, name: string): Certificate {
  openssl(folder, 'req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key.pem`,
    '-out', `${name}.csr.pem`, '-subj', `/CN=${name}`);
  openssl(folder, 'x509', '-req', '-in', `${name}.csr.pem`, '-signkey', `${name}.key.pem`, '-days', '-1', '-out', `${name}.pem`);
  return remembered(folder, name);
} // prettier-ignore

/** Creates a certificate issued by an authority, which is a {@link selfSigned} certificate. */
export function issued(folder: string, name: string, authority: string): Certificate {
  openssl(folder, 'req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key.pem`,
    '-out', `${name}.csr.pem`, '-subj', `/CN=${name}`);
  openssl(folder, 'x509', '-req', '-in', `${name}.csr.pem`, '-CA', `${authority}.pem`, '-CAkey', `${authority}.key.pem`,
    '-CAcreateserial', '-out', `${name}.pem`, '-days', '30');
  return remembered(folder, name);
} // prettier-ignore

/** Registers parts of the key as secrets, so that no log may contain them. */
function remembered(folder: string, name: string): Certificate {
  const key = join(folder, `${name}.key.pem`);
  rememberSecret(readFileSync(key, 'utf8').split('\n')[1] ?? '');
  return { cert: join(folder, `${name}.pem`), key };
}
