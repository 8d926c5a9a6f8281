/** @typedef {ReturnType<typeof createRandom>} Random */

/**
 * A seeded random number generator (mulberry32), with the few operations needed here.
 *
 * @param {number} seed
 */
export function createRandom(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
  /**
   * Returns an integer below a limit.
   *
   * @param {number} limit
   */
  const below = (limit) => Math.floor(next() * limit);
  return {
    below,
    /**
     * Returns a random item of a list.
     *
     * @template T
     * @param {readonly T[]} list
     */
    pick: (list) => list[below(list.length)],
    /**
     * Returns true once in that many times.
     *
     * @param {number} times
     */
    oneIn: (times) => below(times) === 0,
    /**
     * Returns a string of random bytes.
     *
     * @param {number} length
     */
    bytes: (length) => Array.from({ length }, () => String.fromCharCode(below(256))).join(''),
  };
}
