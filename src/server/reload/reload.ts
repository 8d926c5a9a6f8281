// src/server/reload: applies new files, or refuses them.
// May import what server may.
// All processes prepare the new configuration before any uses it.

import { realpathSync, statSync } from 'node:fs';
import type { ListenerCertificate } from '../../config/certificate.js';
import { ConfigError, formatFault } from '../../config/fault.js';
import { logSettings } from '../../config/mask.js';
import { type LoadedConfig, loadConfigToServe } from '../../config/load.js';
import { keepUntilRestart, needsRestart } from '../../config/restart.js';
import type { AuditOutcome } from '../../domain/audit.js';
import { Unavailable } from '../../domain/refusal.js';
import { type Log, useSettings } from '../../observe/log.js';
import { setCertificateExpiry, setReloaded } from '../../observe/metrics.js';
import { WorkerUnreachable } from '../processes/messages.js';
import type { Serving } from '../processes/serving.js';
import { checkSigningKeys } from '../accounts.js';
import type { OpenedStore } from '../stores/open-store.js';
import { OutcomeUnknown, StoreUnusable } from '../../store/faults.js';
import { subscriptionsOf } from '../../webhooks/endpoint.js';
import { applyDirectory, DirectoryRefused, isPassing } from './directory-file.js';
import { readDirectory } from './read-directory.js';

const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;

export interface Reloaded {
  /**
   * It is tried again if `postponed` (the files could not be checked or applied at the moment) or
   * `unconfirmed` (the directory may have been applied).
   */
  readonly outcome: 'applied' | 'refused' | 'postponed' | 'unconfirmed';
  /** Why the running configuration stays; empty when the new one took effect. */
  readonly faults: readonly string[];
  /** Changed settings that only take effect after a restart. */
  readonly needsRestart: readonly string[];
}

/**
 * Either the configuration and the directory are both applied completely, or neither.
 * @param env values for `${NAME}` in the file
 */
export function createReloader(
  first: LoadedConfig,
  opened: OpenedStore,
  serving: Serving,
  env: NodeJS.ProcessEnv,
  log: Log,
  onReloaded: (next: LoadedConfig) => void = () => undefined,
) {
  let current = first;
  let running: Promise<unknown> = Promise.resolve();
  let waiting: Promise<Reloaded> | undefined;
  let retry: NodeJS.Timeout | undefined;
  let postponed = 0;
  /** The files with the faults of the last reload, and those that may be the reason. */
  let faulty: readonly string[] = [];

  const afterRunning = async <T>(task: () => Promise<T>): Promise<T> => {
    const turn = running.then(task);
    running = turn.catch(() => undefined);
    return turn;
  };
  /** A client did not request a reload, so it takes effect even if its entry cannot be written. */
  const audit = (event: 'config.reloaded' | 'config.refused', outcome: AuditOutcome, reason: string): void =>
    opened.audit.note({ event, outcome, reason, actor: { file: current.file } });
  /** Reloads, after any reload in progress. Calls that wait for it share one. @param reason for the log */
  const reload = async (reason: string): Promise<Reloaded> => {
    waiting ??= afterRunning(async () => {
      waiting = undefined;
      clearTimeout(retry);
      return reloadNow(reason).catch(async (error: unknown) => keepCurrent(reason, error));
    });
    return waiting;
  };
  const reloadNow = async (reason: string): Promise<Reloaded> => {
    const { next, changed, directory } = await readFiles(current, env);
    await checkSigningKeys(next.config, opened);
    const prepared = await serving.prepare(next);
    try {
      await applyDirectory(next, directory, opened, log);
    } catch (error) {
      await prepared.abort();
      throw error;
    }
    await prepared.commit();
    current = next;
    opened.store.webhooks.subscribe(subscriptionsOf(next.config));
    onReloaded(next);
    useSettings(log, logSettings(next));
    setReloaded(true);
    postponed = 0;
    faulty = [];
    reportCertificate(next.certificate, log);
    audit('config.reloaded', 'success', reason);
    log.info({ reason, needs_restart: changed }, 'reloaded');
    return { outcome: 'applied', faults: [], needsRestart: changed };
  };
  const keepCurrent = (reason: string, error: unknown): Reloaded => {
    const faults = faultsOf(error);
    const outcome = outcomeOf(error);
    setReloaded(false);
    audit('config.refused', 'failure', reason);
    faulty = error instanceof ConfigError ? [...error.faults.map(({ file }) => file), ...error.reasons] : [];
    if (outcome === 'refused') {
      postponed = 0;
      log.error({ reason, faults }, 'reload refused; running configuration kept');
    } else {
      // The files were not checked for a temporary reason, and nothing else would trigger another reload.
      const wait = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** postponed);
      postponed += 1;
      retry = setTimeout(() => void reload(reason), wait).unref();
      log.warn(
        { reason, faults, retry_in_ms: wait },
        outcome === 'unconfirmed'
          ? 'reload not confirmed; directory may have been applied, running configuration kept'
          : 'reload postponed; running configuration kept',
      );
    }
    return { outcome, faults, needsRestart: [] };
  };
  return {
    current: () => current,
    /** The files whose changes start a reload. */
    watched: () => [...new Set([...watchedFiles(current), ...faulty])],
    reload,
    /** Applies the directory file of the current configuration, after any reload in progress. */
    applyDirectory: async () =>
      afterRunning(async () => applyDirectory(current, await readDirectory(current), opened, log)),
  };
}

/** Reads both files before anything is applied. */
async function readFiles(current: LoadedConfig, env: NodeJS.ProcessEnv) {
  const read = loadConfigToServe(current.file, env);
  const changed = needsRestart(read, current);
  // Settings that need a restart keep their initial values, also in workers that are replaced later.
  const next = keepUntilRestart(read, current, changed);
  return { next, changed, directory: await readDirectory(next) };
}

function outcomeOf(error: unknown): 'refused' | 'postponed' | 'unconfirmed' {
  if (error instanceof OutcomeUnknown) return 'unconfirmed';
  return isPassing(error) || error instanceof WorkerUnreachable ? 'postponed' : 'refused';
}

/**
 * Anyone who reaches the admin port can read it, and unexpected errors may quote a secret: only their kind is
 * shown.
 */
function faultsOf(error: unknown): string[] {
  if (error instanceof ConfigError) return error.faults.map(formatFault);
  const { code, name } = error as NodeJS.ErrnoException;
  const known = [Unavailable, DirectoryRefused, StoreUnusable, WorkerUnreachable];
  if (known.some((kind) => error instanceof kind)) return [(error as Error).message];
  return [`unexpected error: ${name}${code === undefined ? '' : ` (${code})`}`];
}

const WATCH_MS = 1_000;

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
  }, WATCH_MS).unref();
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
