import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { needPackages } from './debian.js';

const FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1';

/** A wall clock for processes that a test starts. Their monotonic clock goes on as it does. */
export interface Clock {
  /** The environment of processes that have this clock. */
  readonly env: NodeJS.ProcessEnv;
  /** Sets it so far from the real time, for every process that has it. @param offset like `-90s` or `+3h` */
  readonly set: (offset: string) => void;
  /** Stops it at the next whole second, so that nothing that is bound to a time passes meanwhile. `set` lets it go on. */
  readonly stop: () => void;
}

/** Makes a clock that shows the real time until it is set. @param folder for the file that it is set by */
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

/** An absolute time as faketime reads it. */
function localTime(ms: number): string {
  const utc = ms - new Date(ms).getTimezoneOffset() * 60_000;
  return new Date(utc).toISOString().slice(0, 19).replace('T', ' ');
}

/** A clock of this process that a test moves on, by so many milliseconds at a call. Timers go on as they do. */
export function movable(t: { teardown: (fn: () => void) => void }, clock: { now: () => number }): (ms: number) => void {
  const { now } = clock;
  let passed = 0;
  clock.now = () => now.call(clock) + passed;
  t.teardown(() => void (clock.now = now));
  return (ms) => void (passed += ms);
} // prettier-ignore
