import { ConfigError, formatFault } from '../../config/fault.js';
import { type LoadedConfig, loadConfigToServe } from '../../config/load.js';
import type { Config } from '../../config/schema/config.js';
import type { AuditOutcome } from '../../domain/audit.js';
import type { Log } from '../../observe/log.js';
import { setReloaded } from '../../observe/metrics.js';
import type { Serving } from '../processes/serving.js';
import { checkSigningKeys } from '../stores/signing-keys.js';
import type { OpenedStore } from '../stores/open-store.js';
import { OutcomeUnknown } from '../../store/store.js';
import { tellCertificate } from './certificate.js';
import { applyDirectory, isPassing } from './directory-file.js';
import { readDirectory } from './read-directory.js';

/** A reload that could not be judged is tried again after this time, doubled each time up to the longest. */
const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;

/** What became of a reload. */
export interface Reloaded {
  /** Why the running configuration stays; empty when the new one serves. */
  readonly faults: readonly string[];
  /** Whether the directory may have been applied all the same: its write was not confirmed. */
  readonly unconfirmed: boolean;
  /** Settings that differ and take effect only when the process starts again. */
  readonly needsRestart: readonly string[];
}

/** Codes of errors whose messages Latchkey composed. */
const OWN_FAULTS: ReadonlySet<string> = new Set([
  'DIRECTORY_REFUSED',
  'STORE_UNAVAILABLE',
  'STORE_UNUSABLE',
  'AUDIT_UNAVAILABLE',
  'SIGNING_UNAVAILABLE',
  'PASSWORDS_BUSY',
]);

/** What a running process is built on. */
const FIXED: readonly [string, (config: Config) => unknown][] = [
  ['listen.host', (c) => c.listen.host],
  ['listen.port', (c) => c.listen.port],
  // Files may change; whether there are any decides what the port speaks.
  ['listen.tls', (c) => c.listen.tls !== null],
  ['listen.tls.client_ca', (c) => c.listen.tls !== null && c.listen.tls.client_ca !== null],
  ['admin', (c) => c.admin],
  ['decision', (c) => c.decision],
  ['workers', (c) => c.workers],
  ['store', (c) => c.store],
  ['cache', (c) => c.cache],
  ['on_store_failure', (c) => c.on_store_failure],
  ['limits', (c) => c.limits],
  ['audit', (c) => c.audit],
  ['tracing', (c) => c.tracing],
  ['login.max_concurrent_hashes', (c) => c.login.max_concurrent_hashes],
];

/** Settings that a reload leaves as they are, with all that is below them. */
export const NEEDS_RESTART: readonly string[] = FIXED.map(([name]) => name);

/** Takes over the configuration file and the directory file as they are now: all of both, or nothing. */
export class Reloader {
  #current: LoadedConfig;
  readonly #opened: OpenedStore;
  readonly #serving: Serving;
  readonly #env: NodeJS.ProcessEnv;
  readonly #log: Log;
  #running: Promise<unknown> = Promise.resolve();
  #retry: NodeJS.Timeout | undefined;
  #postponed = 0;

  /** @param env what the file's `${NAME}` expand to */
  constructor(
    current: LoadedConfig,
    opened: OpenedStore,
    serving: Serving,
    env: NodeJS.ProcessEnv,
    log: Log,
  ) {
    this.#current = current;
    this.#opened = opened;
    this.#serving = serving;
    this.#env = env;
    this.#log = log;
  }

  /** The configuration that serves. */
  get current(): LoadedConfig {
    return this.#current;
  }

  /** Reloads when no other reload is under way. @param reason what asked for it, for the log */
  async reload(reason: string): Promise<Reloaded> {
    const turn = this.#running.then(() => this.#reload(reason));
    this.#running = turn.catch(() => undefined);
    return turn;
  }

  async #reload(reason: string): Promise<Reloaded> {
    clearTimeout(this.#retry);
    try {
      const read = loadConfigToServe(this.#current.file, this.#env);
      const needsRestart = FIXED.filter(
        ([, of]) => JSON.stringify(of(read.config)) !== JSON.stringify(of(this.#current.config)),
      ).map(([name]) => name);
      // What a restart is needed for stays as it was at the start, in workers that are replaced later as well.
      const next = withFixed(read, this.#current);
      await checkSigningKeys(next.config, this.#opened);
      const prepared = await this.#serving.prepare(next);
      try {
        await this.#applyDirectory(next);
      } catch (error) {
        await prepared.abort();
        throw error;
      }
      await prepared.commit();
      this.#current = next;
      this.#log.level = next.config.log.level;
      setReloaded(true);
      this.#postponed = 0;
      tellCertificate(next.certificate, this.#log);
      this.#opened.audit.reopen();
      this.#audit('config.reloaded', 'success', reason);
      this.#log.info({ reason, needs_restart: needsRestart }, 'reloaded');
      return { faults: [], unconfirmed: false, needsRestart };
    } catch (error) {
      const faults = faultsOf(error);
      setReloaded(false);
      this.#audit('config.refused', 'failure', reason);
      const unconfirmed = error instanceof OutcomeUnknown;
      if (isPassing(error)) this.#tryAgain(reason, faults, unconfirmed);
      else {
        this.#postponed = 0;
        this.#log.error({ reason, faults }, 'the reload was refused; the running configuration stays');
      }
      return { faults, unconfirmed, needsRestart: [] };
    }
  }

  async #applyDirectory({ config }: LoadedConfig): Promise<void> {
    const { file } = config.directory;
    if (file === null) return;
    const roles = Object.keys(config.policy.roles);
    await applyDirectory(
      file,
      await readDirectory({ file, env: process.env, roles }),
      this.#opened,
      this.#log,
    );
  }

  /** The files were not judged: what kept them from it passes, and nobody would touch them again. */
  #tryAgain(reason: string, faults: readonly string[], unconfirmed: boolean): void {
    const wait = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#postponed);
    this.#postponed += 1;
    this.#retry = setTimeout(() => void this.reload(reason), wait).unref();
    this.#log.warn(
      { reason, faults, retry_in_ms: wait },
      unconfirmed
        ? 'reload not confirmed; the directory may have been applied, the running configuration stays'
        : 'reload postponed; the running configuration stays',
    );
  }

  /** A reload is no change that a client asked for, so it does not wait for its entry. */
  #audit(event: 'config.reloaded' | 'config.refused', outcome: AuditOutcome, reason: string): void {
    this.#opened.audit.note({ event, outcome, reason, actor: { file: this.#current.file } });
  }
}

function withFixed(next: LoadedConfig, before: LoadedConfig): LoadedConfig {
  const { listen, admin, decision, workers, store, cache, on_store_failure, limits, audit, tracing, login } =
    before.config;
  const sameKind = kindOfTls(next) === kindOfTls(before);
  const { tls } = sameKind ? next.config.listen : listen;
  return {
    ...next,
    certificate: sameKind ? next.certificate : before.certificate,
    written: { ...fixedParts(before.written, true), ...fixedParts(next.written, false) },
    config: {
      ...next.config,
      listen: { ...next.config.listen, host: listen.host, port: listen.port, tls },
      admin,
      decision,
      workers,
      store,
      cache,
      on_store_failure,
      limits,
      audit,
      tracing,
      login: { ...next.config.login, max_concurrent_hashes: login.max_concurrent_hashes },
    },
  };
}

function isFixed(at: string): boolean {
  return NEEDS_RESTART.some((name) => at === name || at.startsWith(`${name}.`));
}

/** The parts that a reload leaves as they are, or the others. */
function fixedParts(written: LoadedConfig['written'], fixed: boolean): LoadedConfig['written'] {
  return Object.fromEntries(Object.entries(written).filter(([at]) => isFixed(at) === fixed));
}

/** What the public port speaks and asks of clients; it can't change while it listens. */
function kindOfTls({ certificate }: LoadedConfig): string {
  return certificate === null
    ? 'plain'
    : certificate.clientCa === null
      ? 'TLS'
      : 'TLS with client certificates';
}

/** Anybody who reaches the admin port reads these, so of faults of others only the kind is told: they may quote a value. */
function faultsOf(error: unknown): string[] {
  if (error instanceof ConfigError) return error.faults.map(formatFault);
  const { code, name, message } = error as NodeJS.ErrnoException;
  return [
    OWN_FAULTS.has(code ?? '')
      ? message
      : `unexpected fault: ${name}${code === undefined ? '' : ` (${code})`}`,
  ];
}
