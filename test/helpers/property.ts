import * as fc from 'fast-check';
import type { Arbitrary, Parameters, RunDetails } from 'fast-check';
import t from 'tap';

/** Most runs in the suite, where time is short. `npm run fuzz:properties` has no such limit. */
const MOST_IN_SUITE = 2_000;

/**
 * How often a property is tried, and with what. `FC_RUNS` sets the number of runs, and `full` stands for those that the property
 * names; a failure prints a seed and a path, which `FC_SEED` and `FC_PATH` take to run that one again.
 *
 * @param runs the number that finds what is rare
 */
export function options<T>(runs: number): Parameters<T> {
  const { FC_RUNS, FC_SEED, FC_PATH } = process.env;
  return {
    numRuns: runsOf(runs, FC_RUNS),
    ...(FC_SEED === undefined ? {} : { seed: Number(FC_SEED) }),
    ...(FC_PATH === undefined ? {} : { path: FC_PATH }),
  };
}

function runsOf(runs: number, wanted: string | undefined): number {
  if (wanted === undefined) return Math.min(runs, MOST_IN_SUITE);
  return wanted === 'full' ? runs : Number(wanted);
}

/** How a check ended: the number of runs, or the seed, the smallest value that fails, and why. */
export function told<T>(details: RunDetails<T>): string {
  if (!details.failed) return `${details.numRuns} runs, seed ${details.seed}`;
  const why = details.errorInstance instanceof Error ? details.errorInstance.message : '';
  return `${why}\n${fc.defaultReportMessage(details) ?? ''}`;
}

/** Checks a property as one test; it holds when `check` throws for no value. */
export function property<T>(
  name: string,
  runs: number,
  values: Arbitrary<T>,
  check: (value: T) => void,
): void {
  t.test(name, { timeout: 600_000 }, async (t) => {
    const details = fc.check(
      fc.property(values, (value) => {
        check(value);
      }),
      options<[T]>(runs),
    );
    t.notOk(details.failed, told(details));
  });
}

/** A share of values that a generator must produce, or it tests less than it seems to. */
export class Share {
  #hits = 0;
  #all = 0;

  note(hit: boolean): void {
    this.#all += 1;
    if (hit) this.#hits += 1;
  }

  /** Whether hits are more than a part of all values. Few values are given the leeway of chance: three standard deviations. */
  exceeds(part: number): boolean {
    const leeway = 3 * Math.sqrt(part * (1 - part) * this.#all);
    return this.#hits > Math.max(0, part * this.#all - leeway);
  }

  /** The part of all values that were hits, 0 to 1. */
  get part(): number {
    return this.#all === 0 ? 0 : this.#hits / this.#all;
  }
}
