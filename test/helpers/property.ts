import * as fc from 'fast-check';
import type { Arbitrary, Parameters, RunDetails } from 'fast-check';
import t from 'tap';

/**
 * Maximum number of runs in the test suite, to save time. `npm run fuzz:properties` is not limited.
 */
const MOST_IN_SUITE = 60;

/**
 * Returns the run options of a property. `FC_RUNS` sets the number of runs; `full` uses the
 * property's own number. A failure prints a seed and a path: set `FC_SEED` and `FC_PATH` to repeat
 * it.
 *
 * @param runs enough to find rare failures
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

/**
 * Describes the outcome: the number of runs or, on failure, the reason, the seed and the smallest
 * failing value.
 */
export function told<T>(details: RunDetails<T>): string {
  if (!details.failed) return `${details.numRuns} runs, seed ${details.seed}`;
  const why = details.errorInstance instanceof Error ? details.errorInstance.message : '';
  return `${why}\n${fc.defaultReportMessage(details) ?? ''}`;
}

/** Tests a property, which holds if `check` throws for no value. */
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

/**
 * Measures how often a generator hits a case, so that a test does not silently cover less than
 * intended.
 */
export class Share {
  #hits = 0;
  #all = 0;

  note(hit: boolean): void {
    this.#all += 1;
    if (hit) this.#hits += 1;
  }

  /**
   * Whether the share of hits exceeds `part`. Small samples get a tolerance of three standard
   * deviations.
   */
  exceeds(part: number): boolean {
    const leeway = 3 * Math.sqrt(part * (1 - part) * this.#all);
    return this.#hits > Math.max(0, part * this.#all - leeway);
  }

  /** The share of values that were hits, 0 to 1. */
  get part(): number {
    return this.#all === 0 ? 0 : this.#hits / this.#all;
  }
}
