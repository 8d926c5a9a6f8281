import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';

const HOUR_MS = 3_600_000;
const OTP_STEP_MS = 30_000;
/**
 * The most that one attempt counts, in milliseconds: after a stall of the machine, what is waited
 * for may still be on its way.
 */
const MOST_PER_ATTEMPT = 1_000;
/** First and longest pause between two attempts, in milliseconds. */
const FIRST_PAUSE = 20;
const LONGEST_PAUSE = 200;

/**
 * Waits until a condition holds.
 * @throws Error after `ms` milliseconds
 */
export async function until(holds: () => boolean | Promise<boolean>, what: string, ms = 30_000): Promise<void> {
  for (let waited = 0; waited < ms; ) {
    const startedAt = process.hrtime.bigint();
    if (await holds()) return;
    await sleep(Math.min(LONGEST_PAUSE, Math.max(FIRST_PAUSE, waited / 20)));
    waited += Math.min(Number(process.hrtime.bigint() - startedAt) / 1e6, MOST_PER_ATTEMPT);
  }
  throw new Error(`waited ${ms} ms in vain: ${what}`);
} // prettier-ignore

/**
 * Waits, then lets this process handle what has arrived. After a stall, timers come before sockets.
 */
export async function pause(ms: number): Promise<void> {
  await sleep(ms);
  await turn();
}

/**
 * Checks that a server logs something. Lines are written later than the response to the request that
 * they are about, so this waits for them.
 */
export async function matchLog(
  t: { match: (found: string, pattern: RegExp | string, message: string) => boolean },
  server: { stdout: () => string },
  pattern: RegExp | string,
  message = 'it logs this',
): Promise<void> {
  const isLogged = (): boolean =>
    typeof pattern === 'string' ? server.stdout().includes(pattern) : pattern.test(server.stdout());
  // Without it, the comparison shows the whole log.
  await until(isLogged, 'a log line').catch(() => undefined);
  t.match(server.stdout(), pattern, message);
}

/**
 * Waits until the clock hour, the period for write counts, lasts at least this much longer. A test
 * across its end would see two hours.
 */
export async function untilHourLasts(ms: number): Promise<void> {
  await untilPeriodLasts(HOUR_MS, ms);
}

/**
 * Waits until the time step of one-time passwords lasts at least this much longer. Codes of the
 * outermost steps would be another step's after its end.
 */
export async function untilOtpStepLasts(ms: number): Promise<void> {
  await untilPeriodLasts(OTP_STEP_MS, ms);
}

async function untilPeriodLasts(period: number, ms: number): Promise<void> {
  await until(() => period - (Date.now() % period) > ms, 'a new period begins', ms + 15_000);
}

/** Waits for the next second. Lists sort tokens by creation time in whole seconds. */
export async function untilNextSecond(): Promise<void> {
  const second = Math.floor(Date.now() / 1_000);
  await until(() => Math.floor(Date.now() / 1_000) > second, 'the next second');
}
