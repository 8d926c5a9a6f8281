// src/server/reload: applies new files, or refuses them.
// May import what server may.
// All processes prepare the new configuration before any uses it.

import { realpathSync, statSync } from 'node:fs';
import type { ListenerCertificate } from '../../config/certificate.js';
import { ConfigError, formatFault } from '../../config/fault.js';
import { logSettings } from '../../config/mask.js';
import { type CheckedDirectory, directoryRules } from '../../config/directory.js';
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

/** Either the configuration and the directory are both applied completely, or neither. */
export class Reloader {
  #current: LoadedConfig;
  readonly #opened: OpenedStore;
  readonly #serving: Serving;
  readonly #env: NodeJS.ProcessEnv;
  readonly #log: Log;
  readonly #onReloaded: (next: LoadedConfig) => void;
  #running: Promise<unknown> = Promise.resolve();
  #waiting: Promise<Reloaded> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #postponed = 0;
  /** The files with the faults of the last reload, and those that may be the reason. */
  #faulty: readonly string[] = [];

  /** @param env values for `${NAME}` in the file */
  constructor(
    current: LoadedConfig,
    opened: OpenedStore,
    serving: Serving,
    env: NodeJS.ProcessEnv,
    log: Log,
    onReloaded: (next: LoadedConfig) => void = () => undefined,
  ) {
    this.#onReloaded = onReloaded;
    this.#current = current;
    this.#opened = opened;
    this.#serving = serving;
    this.#env = env;
    this.#log = log;
  }

  get current(): LoadedConfig {
    return this.#current;
  }

  /** The files whose changes start a reload. */
  get watched(): readonly string[] {
    return [...new Set([...watchedFiles(this.#current), ...this.#faulty])];
  }

  /** Reloads, after any reload in progress. Calls that wait for it share one. @param reason for the log */
  async reload(reason: string): Promise<Reloaded> {
    this.#waiting ??= this.#next(async () => {
      this.#waiting = undefined;
      return this.#reload(reason);
    });
    return this.#waiting;
  }

  /** Applies the directory file of the current configuration, after any reload in progress. */
  async applyDirectory(): Promise<void> {
    return this.#next(async () => this.#applyDirectory(this.#current, await readDirectoryOf(this.#current)));
  }

  async #next<T>(task: () => Promise<T>): Promise<T> {
    const turn = this.#running.then(task);
    this.#running = turn.catch(() => undefined);
    return turn;
  }

  async #reload(reason: string): Promise<Reloaded> {
    clearTimeout(this.#retry);
    try {
      const { next, changed, directory } = await this.#readFiles();
      await checkSigningKeys(next.config, this.#opened);
      const prepared = await this.#serving.prepare(next);
      try {
        await this.#applyDirectory(next, directory);
      } catch (error) {
        await prepared.abort();
        throw error;
      }
      await prepared.commit();
      this.#current = next;
      this.#opened.store.webhooks.subscribe(subscriptionsOf(next.config));
      this.#onReloaded(next);
      useSettings(this.#log, logSettings(next));
      setReloaded(true);
      this.#postponed = 0;
      this.#faulty = [];
      reportCertificate(next.certificate, this.#log);
      this.#audit('config.reloaded', 'success', reason);
      this.#log.info({ reason, needs_restart: changed }, 'reloaded');
      return { outcome: 'applied', faults: [], needsRestart: changed };
    } catch (error) {
      const faults = faultsOf(error);
      setReloaded(false);
      this.#audit('config.refused', 'failure', reason);
      this.#faulty =
        error instanceof ConfigError ? [...error.faults.map(({ file }) => file), ...error.reasons] : [];
      const outcome = outcomeOf(error);
      if (outcome === 'refused') {
        this.#postponed = 0;
        this.#log.error({ reason, faults }, 'reload refused; running configuration kept');
      } else this.#tryAgain(reason, faults, outcome);
      return { outcome, faults, needsRestart: [] };
    }
  }

  /** Reads both files before anything is applied. */
  async #readFiles() {
    const read = loadConfigToServe(this.#current.file, this.#env);
    const changed = needsRestart(read, this.#current);
    // Settings that need a restart keep their initial values, also in workers that are replaced later.
    const next = keepUntilRestart(read, this.#current, changed);
    return { next, changed, directory: await readDirectoryOf(next) };
  }

  async #applyDirectory({ config }: LoadedConfig, directory: CheckedDirectory | null): Promise<void> {
    if (config.directory.file === null || directory === null) return;
    await applyDirectory(config.directory.file, directory, this.#opened, this.#log);
  }

  /** The files were not checked for a temporary reason, and nothing else would trigger another reload. */
  #tryAgain(reason: string, faults: readonly string[], outcome: 'postponed' | 'unconfirmed'): void {
    const wait = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#postponed);
    this.#postponed += 1;
    this.#retry = setTimeout(() => void this.reload(reason), wait).unref();
    this.#log.warn(
      { reason, faults, retry_in_ms: wait },
      outcome === 'unconfirmed'
        ? 'reload not confirmed; directory may have been applied, running configuration kept'
        : 'reload postponed; running configuration kept',
    );
  }

  /** A client did not request a reload, so it takes effect even if its entry cannot be written. */
  #audit(event: 'config.reloaded' | 'config.refused', outcome: AuditOutcome, reason: string): void {
    this.#opened.audit.note({ event, outcome, reason, actor: { file: this.#current.file } });
  }
}

async function readDirectoryOf({ config }: LoadedConfig): Promise<CheckedDirectory | null> {
  const { file } = config.directory;
  if (file === null) return null;
  return readDirectory({ file, env: process.env, rules: directoryRules(config) });
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
