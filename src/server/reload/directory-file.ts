import type { Directory } from '../../accounts/declared-records.js';
import {
  describeRefusedChange,
  type DirectoryApplier,
  isTransientRefusal,
  type NotApplied,
  type Plan,
  STEP,
} from '../../accounts/directory.js';
import { directoryAuditEvents } from '../../accounts/directory-differences.js';
import type { LoadedConfig } from '../../config/load.js';
import { partsOf } from '../../util/collections.js';
import type { AuditEvent } from '../../domain/audit.js';
import { Unavailable } from '../../domain/refusal.js';
import type { Log } from '../../observe/log.js';
import type { OpenedStore } from '../stores/open-store.js';
import { connectionFields } from '../../util/system-error.js';
import { readDirectory } from './read-directory.js';

const APPLY_RETRY_MS = 1_000;
/** Maximum number of ids in one log line. */
const MAX_NAMED = 100;

/** Thrown when the directory could not be applied. */
export class DirectoryRefused extends Error {
  /** Whether a retry may succeed with the same file, because of a concurrent write. */
  readonly passes: boolean;

  constructor(file: string, { refused, isPartial }: NotApplied) {
    super(
      `${file}: ${describeRefusedChange(refused)}; ${isPartial ? 'only a part was applied' : 'nothing was changed'}`,
    );
    this.passes = isTransientRefusal(refused);
  }
}

export function isPassing(error: unknown): boolean {
  return error instanceof Unavailable || (error instanceof DirectoryRefused && error.passes);
}

/**
 * Initializes the store and applies the directory file. A store that is not yet available does not prevent
 * the start: no request is allowed until it is. An error in the file itself does, and a store that cannot be
 * used.
 */
export async function applyAtStart(loaded: LoadedConfig, opened: OpenedStore, log: Log) {
  let isApplied = false;
  let fault: string | null = null;
  const attempt = async (apply: () => Promise<void>): Promise<void> => {
    await opened.store.maintenance.initialize();
    if (!isApplied) await apply();
    isApplied = true;
    fault = null;
  };
  /** @param apply applies the directory file of the current configuration, after any reload in progress */
  const retry = (apply: () => Promise<void>): void => {
    if (fault === null) return;
    setTimeout(() => {
      attempt(apply).then(
        () => log.info('store available'),
        (error: Error) => {
          // An operator can fix the store, or the file, while this process runs.
          if (!isPassing(error) && error.message !== fault)
            log.error({ err: error }, 'store or directory file cannot be used; retrying');
          fault = error.message;
          retry(apply);
        },
      );
    }, APPLY_RETRY_MS).unref();
  };
  await attempt(async () => applyDirectory(loaded, await readDirectory(loaded), opened, log)).catch(
    (error: Error) => {
      if (!isPassing(error)) throw error;
      fault = error.message;
      log.warn({ ...connectionFields(error), reason: fault }, 'store unavailable; retrying');
    },
  );
  return {
    /** Why requests cannot be served yet; null once everything is done. */
    fault: () => fault && `the directory file is not applied yet: ${fault}`,
    /** To be called when a reload has applied a directory file, or none is configured any more. */
    applied: () => void (isApplied = true),
    retry,
  };
}

/** @throws DirectoryRefused, Unavailable */
export async function applyDirectory(
  { config }: LoadedConfig,
  directory: Directory | null,
  opened: OpenedStore,
  log: Log,
): Promise<void> {
  const { file } = config.directory;
  if (file === null || directory === null) return;
  opened.audit.ensureWritable();
  // The change stands even if its entry cannot be written. The next change waits until entries can be.
  const note = (events: readonly AuditEvent[]) =>
    opened.audit.note(...events.map((event) => ({ ...event, actor: { file } })));
  const plan = await writeDirectory(file, directory, opened.directory, note);
  const { pendingDeletions: pending, revokedTokens: revoked } = plan;
  if (pending.length > 0)
    log.warn(
      { file, count: pending.length, users: pending.slice(0, MAX_NAMED) },
      'users removed from the directory locked; deletion pending until their tokens end',
    );
  if (revoked.length > 0)
    log.warn(
      { file, count: revoked.length, token_ids: revoked.slice(0, MAX_NAMED) },
      'declared tokens already revoked; not applied',
    );
}

/** @throws DirectoryRefused, Unavailable */
export async function writeDirectory(
  file: string,
  directory: Directory,
  applier: DirectoryApplier,
  note: (events: readonly AuditEvent[]) => void,
): Promise<Plan> {
  const applied = await applier.apply(directory, Date.now(), (differences, outcome) => {
    for (const some of partsOf(directoryAuditEvents(differences, outcome), STEP)) note(some);
  });
  if ('refused' in applied) throw new DirectoryRefused(file, applied);
  return applied;
}
