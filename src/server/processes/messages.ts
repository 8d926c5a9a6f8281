import type { Worker as ClusterWorker } from 'node:cluster';
import type { LoadedConfig } from '../../config/load.js';
import type { ShadowDifferenceCounts } from '../../pipeline/shadow-differences.js';

/** Commands from a primary to a worker. Each gets a reply. */
export type Ask = 'ping' | 'metrics' | 'casualties' | 'prepare' | 'commit' | 'abort' | 'reopen';

type WorkerHandlers = Readonly<Record<Ask, (value: unknown) => Promise<unknown>>>;

const MARK = 'latchkey';
const HELLO = 'latchkey:hello';
const ENDING = 'latchkey:ending';
const FINAL_COUNTS = 'latchkey:final-counts';
const FAILURE = 'latchkey:failure';
const HELLO_TIMEOUT_MS = 10_000;

/** A worker ended, or does not respond now. */
export class WorkerUnreachable extends Error {}

interface FinalCounts {
  readonly metrics: unknown[];
  readonly casualties: ShadowDifferenceCounts[];
}

interface WorkerRequest {
  readonly [MARK]: number;
  readonly ask: Ask;
  readonly value?: unknown;
}

interface WorkerReply {
  readonly [MARK]: number;
  readonly value?: unknown;
  readonly failed?: string;
}

let questions = 0;

/** Commands that this worker received before it has handlers for them. */
const early: WorkerRequest[] = [];

/**
 * @param timeout milliseconds
 * @throws WorkerUnreachable when it is gone or does not reply in time; Error when it fails
 */
export async function askWorker(
  worker: ClusterWorker,
  ask: Ask,
  timeout: number,
  value?: unknown,
): Promise<unknown> {
  const number = ++questions;
  return new Promise((resolve, reject) => {
    const finish = (end: () => void) => {
      clearTimeout(timer);
      worker.off('message', onMessage);
      worker.off('exit', onExit);
      end();
    };
    const named = (reason: string) => `worker ${worker.process.pid}: ${reason}`;
    const fail = (reason: string) => finish(() => reject(new WorkerUnreachable(named(reason))));
    const onExit = () => fail('it exited');
    const onMessage = (message: WorkerReply | null) => {
      if (message?.[MARK] !== number) return;
      if (message.failed === undefined) finish(() => resolve(message.value));
      else finish(() => reject(new Error(named(message.failed ?? ''))));
    };
    const timer = setTimeout(() => fail('no response'), timeout);
    worker.on('message', onMessage);
    worker.once('exit', onExit);
    if (worker.isConnected())
      worker.send({ [MARK]: number, ask, value } satisfies WorkerRequest, (error) => {
        if (error !== null) fail(error.message);
      });
    else fail('it has already exited');
  });
}

/** Handles the primary's commands in this worker, those received since its configuration first. */
export function answerPrimary(answers: WorkerHandlers): void {
  const handle = (message: WorkerRequest | null): void => {
    const number = message?.[MARK];
    if (message === null || number === undefined || !(message.ask in answers)) return;
    const reply = (answer: Omit<WorkerReply, typeof MARK>) =>
      process.send?.({ [MARK]: number, ...answer }, ignoreEnd);
    answers[message.ask](message.value).then(
      (value) => reply({ value }),
      (error: unknown) => reply({ failed: error instanceof Error ? error.message : String(error) }),
    );
  };
  process.on('message', handle);
  process.off('message', keepEarly);
  for (const message of early.splice(0)) handle(message);
}

function keepEarly(message: WorkerRequest): void {
  early.push(message);
}

/** Sends the primary's current configuration to a worker that asks for it; the file may have changed. */
export function sendConfig(worker: ClusterWorker, current: () => LoadedConfig): void {
  worker.on('message', (message) => {
    if (message === HELLO) worker.send({ [HELLO]: current() }, ignoreEnd);
  });
}

export function reportEnding(): void {
  process.send?.(ENDING, ignoreEnd);
}

export function onEnding(worker: ClusterWorker, begun: () => void): void {
  worker.on('message', (message) => {
    if (message === ENDING) begun();
  });
}

/** Reports the error that ends this worker to the primary, and waits until it has received it. */
export async function reportFailure(error: unknown): Promise<void> {
  const { message, stack, code }: NodeJS.ErrnoException =
    error instanceof Error ? error : new Error(String(error));
  await deliver(FAILURE, { message, stack, code });
}

export function onFailure(worker: ClusterWorker, failed: (error: Error) => void): void {
  onDelivery(worker, FAILURE, (fields) => failed(Object.assign(new Error(), fields)));
}

/**
 * Reports this worker's final counts, and waits for the receipt. Must be its last message: connections that
 * the primary handed over earlier then arrive before it, and go to another worker. Otherwise they would stay
 * open in the primary forever.
 */
export async function reportFinalCounts(counts: FinalCounts): Promise<void> {
  await deliver(FINAL_COUNTS, counts);
}

export function onFinalCounts(worker: ClusterWorker, received: (counts: FinalCounts) => void): void {
  onDelivery(worker, FINAL_COUNTS, (counts) => received(counts as FinalCounts));
}

async function deliver(mark: string, value: unknown): Promise<void> {
  await new Promise<void>((received) => {
    if (process.send === undefined || !process.connected) {
      received();
      return;
    }
    process.once('disconnect', received).on('message', (message) => {
      if (message === mark) received();
    });
    process.send({ [mark]: value }, ignoreEnd);
  });
}

function onDelivery(worker: ClusterWorker, mark: string, received: (value: unknown) => void): void {
  worker.on('message', (message: Readonly<Record<string, unknown>> | null) => {
    const value = message?.[mark];
    if (value === undefined) return;
    received(value);
    if (worker.isConnected()) worker.send(mark, ignoreEnd);
  });
}

/** @throws Error when the primary is another program */
export async function configFromPrimary(): Promise<LoadedConfig> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(
        new Error('started as a cluster worker of another program; start latchkey directly and set workers'),
      );
    }, HELLO_TIMEOUT_MS);
    const onMessage = (message: { [HELLO]?: LoadedConfig } | null) => {
      const loaded = message?.[HELLO];
      if (loaded === undefined) return;
      clearTimeout(timer);
      // A reload may follow at once. A cluster worker drops messages that have no listener.
      process.on('message', keepEarly);
      process.off('message', onMessage);
      resolve(loaded);
    };
    process.on('message', onMessage);
    process.send?.(HELLO, ignoreEnd);
  });
}

/**
 * The callback of a message that nobody waits for: without one, Node would emit the error and end this
 * process.
 */
function ignoreEnd(): void {}
