import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { needPackages } from './debian.js';

const FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1';

/** A wall clock for processes that a test starts. Their monotonic clock is unaffected. */
export interface Clock {
  /** The environment for processes that use this clock. */
  readonly env: NodeJS.ProcessEnv;
  /**
   * Sets the offset from real time, for every process that uses this clock.
   * @param offset like `-90s` or `+3h`
   */
  readonly set: (offset: string) => void;
  /**
   * Stops the clock at the next whole second, so that nothing expires meanwhile. `set` restarts it.
   */
  readonly stop: () => void;
}

/**
 * Creates a clock that shows real time until it is set.
 * @param folder holds the file that controls the clock
 */
export function makeClock(folder: string): Clock {
  needPackages(() => existsSync(FAKETIME), 'faketime', 'libfaketime');
  const file = join(folder, 'clock');
  const set = (offset: string) => writeFileSync(file, offset);
  set('+0s');
  return {
    env: {
      LD_PRELOAD: FAKETIME,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
    set,
    stop: () => set(localTime(Math.ceil(Date.now() / 1_000) * 1_000)),
  };
}

/** Formats an absolute time for faketime. */
function localTime(ms: number): string {
  const utc = ms - new Date(ms).getTimezoneOffset() * 60_000;
  return new Date(utc).toISOString().slice(0, 19).replace('T', ' ');
}

/**
 * Makes a clock of this process movable: each call advances it by that many milliseconds. Timers
 * are unaffected.
 */
export function movable(t: { teardown: (fn: () => void) => void }, clock: { now: () => number }): (ms: number) => void {
  const { now } = clock;
  let passed = 0;
  clock.now = () => now.call(clock) + passed;
  t.teardown(() => void (clock.now = now));
  return (ms) => void (passed += ms);
} // prettier-ignore
