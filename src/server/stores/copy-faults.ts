import type { Log } from '../../observe/log.js';
import type { CopyFault } from '../../store/lmdb/copies.js';

/** Logs what the files of the embedded store turned out to be. @param path of its folder */
export function logCopyFault(fault: CopyFault, path: string, log: Log): void {
  switch (fault.kind) {
    case 'older':
      log.error(
        { path, last_used_at: iso(fault.lastUsedAt), transactions_behind: fault.transactionsBehind },
        'store is older than when it was last used; revocations since its copy was made are lost',
      );
      return;
    case 'another':
      log.warn({ path, last_used_at: iso(fault.lastUsedAt) }, 'store is not the one last used at this path');
      return;
    case 'replaced':
      log.error({ path }, 'store files replaced while in use; every request is refused until a restart');
      return;
    case 'unnoted':
      log.info({ path, reason: fault.reason }, 'old copies of the store cannot be detected');
  }
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
