import type { Worker as ClusterWorker } from 'node:cluster';
import type { LoadedConfig } from '../../config/load.js';
import type { CasualtyCounts } from '../../pipeline/casualties.js';

/** What a primary asks a worker to do; each gets an answer. */
export type Ask = 'metrics' | 'casualties' | 'prepare' | 'commit' | 'abort';

/** What a worker does when it is asked; `value` comes with `prepare`. */
export type WorkerHandlers = Readonly<Record<Ask, (value: unknown) => Promise<unknown>>>;

const MARK = 'latchkey';
const HELLO = 'latchkey:hello';
const FINAL_COUNTS = 'latchkey:final-counts';
const HELLO_TIMEOUT_MS = 10_000;

interface FinalCounts {
  readonly metrics: unknown[];
  readonly casualties: CasualtyCounts[];
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

/** Asks a worker. @throws Error when it fails, is gone, or does not answer within `timeout` milliseconds */
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
    const fail = (reason: string) =>
      finish(() => reject(new Error(`worker ${worker.process.pid}: ${reason}`)));
    const onExit = () => fail('it ended');
    const onMessage = (message: WorkerReply | null) => {
      if (message?.[MARK] !== number) return;
      if (message.failed === undefined) finish(() => resolve(message.value));
      else fail(message.failed);
    };
    const timer = setTimeout(() => fail('no answer'), timeout);
    worker.on('message', onMessage);
    worker.once('exit', onExit);
    if (worker.isConnected()) worker.send({ [MARK]: number, ask, value } satisfies WorkerRequest);
    else fail('it is gone');
  });
}

/** Lets this worker answer its primary's questions. */
export function answerPrimary(answers: WorkerHandlers): void {
  process.on('message', (message: WorkerRequest | null) => {
    const number = message?.[MARK];
    if (message === null || number === undefined || !(message.ask in answers)) return;
    const reply = (answer: Omit<WorkerReply, typeof MARK>) => process.send?.({ [MARK]: number, ...answer });
    answers[message.ask](message.value).then(
      (value) => reply({ value }),
      (error: unknown) => reply({ failed: error instanceof Error ? error.message : String(error) }),
    );
  });
}

/** Gives a worker, when it says hello, the configuration that the primary runs: the file may be another one by now. */
export function sendConfig(worker: ClusterWorker, current: () => LoadedConfig): void {
  worker.on('message', (message) => {
    if (message === HELLO) worker.send({ [HELLO]: current() });
  });
}

/**
 * Tells the primary what this worker counted in all, as the last thing before it ends, and waits until the primary has it.
 * What the primary sent before comes before its answer: among that are connections that it handed over when it did not
 * know yet that this worker takes no more. Each is given back and goes to another worker; with a worker that just ends,
 * it would stay open in the primary, and its client would wait for ever.
 */
export async function reportFinalCounts(counts: FinalCounts): Promise<void> {
  await new Promise<void>((received) => {
    if (process.send === undefined || !process.connected) {
      received();
      return;
    }
    process.on('message', (message) => {
      if (message === FINAL_COUNTS) received();
    });
    process.send({ [FINAL_COUNTS]: counts });
  });
}

/** Calls back with what a worker counted, when it ends as it should. */
export function onFinalCounts(worker: ClusterWorker, received: (counts: FinalCounts) => void): void {
  worker.on('message', (message: { [FINAL_COUNTS]?: FinalCounts } | null) => {
    const counts = message?.[FINAL_COUNTS];
    if (counts === undefined) return;
    received(counts);
    if (worker.isConnected()) worker.send(FINAL_COUNTS);
  });
}

/** The configuration of this worker's primary. @throws Error when the primary is another program */
export async function configFromPrimary(): Promise<LoadedConfig> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new Error('another program started this as its cluster worker; start it alone and set workers'));
    }, HELLO_TIMEOUT_MS);
    const onMessage = (message: { [HELLO]?: LoadedConfig } | null) => {
      const loaded = message?.[HELLO];
      if (loaded === undefined) return;
      clearTimeout(timer);
      process.off('message', onMessage);
      resolve(loaded);
    };
    process.on('message', onMessage);
    process.send?.(HELLO);
  });
}
