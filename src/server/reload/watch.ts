import { realpathSync, statSync } from 'node:fs';
import type { ListenerCertificate } from '../../config/certificate.js';
import type { LoadedConfig } from '../../config/load.js';
import type { Log } from '../../observe/log.js';
import { setCertificateExpiry } from '../../observe/metrics.js';

const INTERVAL_MS = 1_000;

/**
 * Calls back when one of the files changes: rewritten, replaced, or behind another symbolic link
 * (Kubernetes). Waits until two polls agree, so that a file is not read while it is being written. Stop it
 * with `clearInterval`.
 */
export function watchFiles(
  files: () => readonly string[],
  since: string,
  onChange: () => void,
): NodeJS.Timeout {
  let reported = since;
  let last = reported;
  return setInterval(() => {
    const now = signaturesOf(files());
    if (now !== reported && now === last) {
      reported = now;
      onChange();
    }
    last = now;
  }, INTERVAL_MS).unref();
}

export function signaturesOf(files: readonly string[]): string {
  return files.map(signature).join('\n');
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

export function watchedFiles({ file, config }: LoadedConfig): string[] {
  const { directory, policy_shadow: shadow, listen } = config;
  const tls = listen.tls === null ? [] : [listen.tls.cert, listen.tls.key, listen.tls.client_ca];
  return [file, directory.file, shadow, ...tls].filter((each) => each !== null);
}
