import { Command } from 'ioredis';
import { MAX_TIMER_MS } from '../../util/time.js';
import { OutcomeUnknown } from '../faults.js';
import type { MasterSession } from './session.js';
import type { RedisSettings } from './settings.js';

/** The number of replicas that must have a change, and how long to wait for them (milliseconds). */
export type AcknowledgeSettings = NonNullable<RedisSettings['acknowledge']>;

/** The number of replicas that confirmed; of WAITAOF also whether the server itself did. */
type Answer = number | [local: number, replicas: number];

const WAITAOF_SINCE = [7, 2] as const;

/**
 * `WAIT` covers everything that was written on its connection before, so changes whose replies
 * arrive together share one.
 */
export class Acknowledgement {
  readonly #settings: AcknowledgeSettings;
  readonly #commandTimeout: number;
  readonly #due = new WeakMap<MasterSession, Promise<number>>();
  readonly #onDisk = new WeakMap<MasterSession, Promise<boolean>>();

  constructor(settings: AcknowledgeSettings, commandTimeout: number) {
    this.#settings = settings;
    this.#commandTimeout = commandTimeout;
  }

  /** @throws OutcomeUnknown if not enough replicas confirm it in time */
  async wait(session: MasterSession): Promise<void> {
    const { replicas } = this.#settings;
    const count = await this.#wait(session);
    if (count >= replicas) return;
    throw new OutcomeUnknown(`${Math.max(0, count)} of ${replicas} replicas acknowledged it`);
  }

  #wait(session: MasterSession): Promise<number> {
    const due = this.#due.get(session);
    if (due !== undefined) return due;
    const next = this.#send(session);
    this.#due.set(session, next);
    return next;
  }

  async #send(session: MasterSession): Promise<number> {
    const onDisk = await this.#waitsForDisk(session);
    // Let all replies of one packet share the command.
    await new Promise((resolve) => setImmediate(resolve));
    this.#due.delete(session);
    const { replicas, timeout } = this.#settings;
    const command = onDisk
      ? new Command('waitaof', [1, replicas, timeout])
      : new Command('wait', [replicas, timeout]);
    command.setTimeout(Math.min(timeout + this.#commandTimeout, MAX_TIMER_MS));
    const answer = await (session.changes.sendCommand(command) as Promise<Answer>).catch((error: unknown) => {
      // WAITAOF fails once the file is turned off.
      this.#onDisk.delete(session);
      throw error;
    });
    if (typeof answer === 'number') return answer;
    return answer[0] === 1 ? answer[1] : -1;
  }

  #waitsForDisk(session: MasterSession): Promise<boolean> {
    const known = this.#onDisk.get(session);
    if (known !== undefined) return known;
    const onDisk = writesAppendOnlyFile(session);
    this.#onDisk.set(session, onDisk);
    onDisk.catch(() => this.#onDisk.delete(session));
    return onDisk;
  }
}

async function writesAppendOnlyFile({ changes }: MasterSession): Promise<boolean> {
  const [server, persistence] = await Promise.all([changes.info('server'), changes.info('persistence')]);
  const [, major = '0', minor = '0'] = /^redis_version:(\d+)\.(\d+)/m.exec(server) ?? [];
  const [sinceMajor, sinceMinor] = WAITAOF_SINCE;
  const knows = Number(major) > sinceMajor || (Number(major) === sinceMajor && Number(minor) >= sinceMinor);
  return knows && /^aof_enabled:1/m.test(persistence);
}
