// Repeats operations: some at once, or until one has a wanted outcome.

/** @import { Meaning } from './meaning.mjs' */

/**
 * @template T
 * @param {T[]} all
 * @param {number} atOnce
 * @param {(each: T, index: number) => Promise<unknown>} work
 */
export async function inParallel(all, atOnce, work) {
  let next = 0;
  const one = async () => {
    while (next < all.length) {
      const index = next++;
      await work(all[index], index);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
}

/**
 * Repeats an operation until it has one of the given outcomes.
 *
 * @param {() => Promise<Meaning>} work
 * @param {Meaning[]} outcomes
 */
export async function untilAny(work, ...outcomes) {
  while (!outcomes.includes(await work()));
}
