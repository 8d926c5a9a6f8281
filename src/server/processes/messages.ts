import type { ChildProcess } from 'node:child_process';
import type { LoadedConfig } from '../../config/load.js';
import type { ShadowDifferenceCounts } from '../../pipeline/shadow.js';

/** Commands from a primary to a worker. */
export type Command = 'counts' | 'prepare' | 'commit' | 'abort';
/** What a worker tells its primary. The reply to `hello` is the configuration. */
export type Report = 'hello' | 'serving' | 'ending' | 'final-counts' | 'failure';

type Handlers<Name extends string> = Readonly<Record<Name, (value: unknown) => unknown>>;

export interface Counts {
  readonly metrics: unknown[];
  readonly casualties: readonly ShadowDifferenceCounts[];
}

/** The base URL of each port that a worker serves; null for a port that is off. */
export interface ServedUrls {
  readonly url: string;
  readonly decisionUrl: string | null;
  readonly grpcUrl: string | null;
}

const HELLO_TIMEOUT_MS = 10_000;

/** A process ended, or does not respond now. */
export class WorkerUnreachable extends Error {}

/** The other end of the channel between two processes. */
type Peer = ChildProcess | NodeJS.Process;

interface Message {
  /** Number of a question. */
  readonly latchkey?: number;
  readonly name?: string;
  /** Number of the question that this answers. */
  readonly answers?: number;
  readonly value?: unknown;
  readonly failed?: string;
}

let questions = 0;

/** @throws WorkerUnreachable; Error when its handler fails */
export async function ask(peer: Peer, name: string, value?: unknown, timeout?: number): Promise<unknown> {
  const number = ++questions;
  return new Promise((resolve, reject) => {
    const finish = (end: () => void): void => {
      clearTimeout(timer);
      peer.off('message', onMessage).off('disconnect', onEnd);
      end();
    };
    const fail = (reason: string): void => finish(() => reject(new WorkerUnreachable(reason)));
    const onEnd = (): void => fail('it exited');
    const onMessage = (message: Message | null): void => {
      if (message?.answers !== number) return;
      const { failed } = message;
      finish(() => (failed === undefined ? resolve(message.value) : reject(new Error(failed))));
    };
    const timer = timeout === undefined ? undefined : setTimeout(() => fail('no response'), timeout);
    peer.on('message', onMessage).on('disconnect', onEnd);
    post(peer, { latchkey: number, name, value }, fail);
  });
}

function post(peer: Peer, message: Message, failed: (reason: string) => void): void {
  // Without a callback, Node would emit the error and end this process.
  if (peer.send === undefined || !peer.connected) failed('it has already exited');
  else peer.send(message, undefined, undefined, (error: Error | null) => error && failed(error.message));
}

async function reply(peer: Peer, { latchkey, name, value }: Message, handlers: Handlers<string>) {
  const answer = await Promise.resolve(value)
    .then(handlers[name as string])
    .then(
      (result) => ({ value: result }),
      (error: unknown) => ({ failed: error instanceof Error ? error.message : String(error) }),
    );
  if (latchkey !== undefined) post(peer, { answers: latchkey, ...answer }, () => undefined);
}

/**
 * @param timeout milliseconds
 * @throws WorkerUnreachable when it is gone or does not reply in time; Error when it fails
 */
export async function askWorker(
  worker: ChildProcess,
  command: Command,
  timeout: number,
  value?: unknown,
): Promise<unknown> {
  return ask(worker, command, value, timeout).catch((error: Error) => {
    error.message = `worker ${worker.pid}: ${error.message}`;
    throw error;
  });
}

/**
 * Signals a process that this one started. One that could not be started has no id: Node would signal
 * whatever its memory held, such as 0, the group of this process.
 */
export function signalChild(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid !== undefined) child.kill(signal);
}

/** Answers what the peer asks. */
export function answer<Name extends string>(peer: Peer, handlers: Handlers<Name> | Promise<Handlers<Name>>): void {
  peer.on('message', (message: Message | null) => {
    if (message?.latchkey !== undefined)
      void Promise.resolve(handlers).then(async (known) => reply(peer, message, known));
  });
} // prettier-ignore

let answerPrimaryWith: (handlers: Handlers<Command>) => void = () => undefined;

/** Answers the commands of the primary, those received since the configuration first. */
export function answerPrimary(handlers: Handlers<Command>): void {
  answerPrimaryWith(handlers);
}

/** Reports to the primary, and waits for its receipt, unless it is gone. */
export async function reportToPrimary(report: Report, value?: unknown): Promise<void> {
  await ask(process, report, value).catch(() => undefined);
}

/** @throws Error when the primary is another program */
export async function configFromPrimary(): Promise<LoadedConfig> {
  // A reload may follow at once: its commands wait for their handlers.
  const ready = new Promise<Handlers<Command>>((resolve) => (answerPrimaryWith = resolve));
  answer(process, ready);
  return ask(process, 'hello', undefined, HELLO_TIMEOUT_MS).catch(() => {
    throw new Error(
      'started as a cluster worker of another program; start latchkey directly and set workers',
    );
  }) as Promise<LoadedConfig>;
}
