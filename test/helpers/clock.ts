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
  };
}
