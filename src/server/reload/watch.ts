import { realpathSync, statSync } from 'node:fs';
import type { ListenerCertificate } from '../../config/certificate.js';
import type { Config } from '../../config/schema/config.js';
import type { Log } from '../../observe/log.js';
import { setCertificateExpiry } from '../../observe/metrics.js';

const INTERVAL_MS = 1_000;

/**
 * Calls back when one of the files changes: rewritten, replaced, or behind another symbolic link
 * (as Kubernetes swaps them).
 *
 * It polls once a second, and waits until two polls agree, so that a file is not read while it is
 * being written. Stop it with `clearInterval`.
 */
export function watchFiles(files: () => readonly string[], onChange: () => void): NodeJS.Timeout {
  let reported = files().map(signature).join('\n');
  let last = reported;
  return setInterval(() => {
    const now = files().map(signature).join('\n');
    if (now !== reported && now === last) {
      reported = now;
      onChange();
    }
    last = now;
  }, INTERVAL_MS).unref();
}

function signature(file: string): string {
  try {
    const { ino, size, mtimeMs } = statSync(file);
    return `${realpathSync(file)} ${ino} ${size} ${mtimeMs}`;
  } catch {
    return `${file} is not there`;
  }
}

/** Reports the certificate now in use: its expiry as a metric, and its problems in the log. */
export function reportCertificate(certificate: ListenerCertificate | null, log: Log): void {
  if (certificate === null) return;
  setCertificateExpiry(certificate.expiresAt / 1000);
  for (const warning of certificate.warnings)
    log.warn({ warning }, 'TLS certificate of the public port needs attention');
}

/** Returns the TLS files of the public port, to be watched. */
export function certificateFiles({ listen: { tls } }: Config): string[] {
  return tls === null ? [] : [tls.cert, tls.key, tls.client_ca].filter((file) => file !== null);
}
