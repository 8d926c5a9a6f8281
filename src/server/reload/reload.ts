import { loadDirectory } from '../../config/directory.js';
import { ConfigError, formatFault } from '../../config/fault.js';
import { type LoadedConfig, loadConfigToServe } from '../../config/load.js';
import type { Config } from '../../config/schema/config.js';
import { directoryFact } from '../../accounts/directory-fact.js';
import { describeRefusedChange } from '../../accounts/refused-change.js';
import type { AuditOutcome } from '../../domain/audit.js';
import type { Log } from '../../observe/log.js';
import { setReloaded } from '../../observe/metrics.js';
import type { Serving } from '../processes/serving.js';
import { checkSigningKeys } from '../stores/signing-keys.js';
import type { StoreRoom } from '../stores/store-room.js';
import { tellCertificate } from './certificate.js';

/** What became of a reload. */
export interface Reloaded {
  /** Why nothing was changed; empty when the new configuration serves. */
  readonly faults: readonly string[];
  /** Settings that differ and take effect only when the process starts again. */
  readonly needsRestart: readonly string[];
}

/** The directory could not be applied; nothing was changed. */
export class DirectoryRefused extends Error {
  readonly code = 'DIRECTORY_REFUSED';
}

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

/** Brings the store to the directory file of a configuration, when it names one. @throws DirectoryRefused, ConfigError */
export async function applyDirectoryFile({ config }: LoadedConfig, room: StoreRoom): Promise<void> {
  const { file } = config.directory;
  if (file === null) return;
  const directory = loadDirectory(file, process.env, Object.keys(config.policy.roles));
  room.audit.ensureWritable();
  const applied = await room.directory.apply(directory, Date.now());
  if ('refused' in applied) {
    throw new DirectoryRefused(`${file}: ${describeRefusedChange(applied.refused)}; nothing was changed`);
  }
  const fact = directoryFact(applied.differences);
  // It is applied by now, whether its entry can be written or not; the next change waits until entries can be.
  if (fact !== undefined) room.audit.note({ ...fact, actor: { file } });
}

/** Takes over the configuration file and the directory file as they are now: all of both, or nothing. */
export class Reloader {
  #current: LoadedConfig;
  readonly #room: StoreRoom;
  readonly #serving: Serving;
  readonly #env: NodeJS.ProcessEnv;
  readonly #log: Log;
  #running: Promise<unknown> = Promise.resolve();

  /** @param env what the file's `${NAME}` expand to */
  constructor(current: LoadedConfig, room: StoreRoom, serving: Serving, env: NodeJS.ProcessEnv, log: Log) {
    this.#current = current;
    this.#room = room;
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
    try {
      const read = loadConfigToServe(this.#current.file, this.#env);
      const needsRestart = FIXED.filter(
        ([, of]) => JSON.stringify(of(read.config)) !== JSON.stringify(of(this.#current.config)),
      ).map(([name]) => name);
      // What a restart is needed for stays as it was at the start, in workers that are replaced later as well.
      const next = withFixed(read, this.#current);
      await checkSigningKeys(next.config, this.#room);
      const prepared = await this.#serving.prepare(next);
      try {
        await applyDirectoryFile(next, this.#room);
      } catch (error) {
        await prepared.abort();
        throw error;
      }
      await prepared.commit();
      this.#current = next;
      this.#log.level = next.config.log.level;
      setReloaded(true);
      tellCertificate(next.certificate, this.#log);
      this.#room.audit.reopen();
      this.#audit('config.reloaded', 'success', reason);
      this.#log.info({ reason, needs_restart: needsRestart }, 'reloaded');
      return { faults: [], needsRestart };
    } catch (error) {
      const faults = faultsOf(error);
      setReloaded(false);
      this.#audit('config.refused', 'failure', reason);
      this.#log.error({ reason, faults }, 'the reload was refused; the running configuration stays');
      return { faults, needsRestart: [] };
    }
  }

  /** A reload is no change that a client asked for, so it does not wait for its entry. */
  #audit(event: 'config.reloaded' | 'config.refused', outcome: AuditOutcome, reason: string): void {
    this.#room.audit.note({ event, outcome, reason, actor: { file: this.#current.file } });
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

/** What the public port speaks and asks of clients; it can't change while it listens. */
function kindOfTls({ certificate }: LoadedConfig): string {
  return certificate === null
    ? 'plain'
    : certificate.clientCa === null
      ? 'TLS'
      : 'TLS with client certificates';
}

function faultsOf(error: unknown): string[] {
  if (error instanceof ConfigError) return error.faults.map(formatFault);
  return [error instanceof Error ? error.message : String(error)];
}
