/** @typedef {ReturnType<typeof createRandom>} Random */

/**
 * A generator of numbers that a seed decides (mulberry32), with the few ways in which it is asked here.
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
   * A whole number below a limit.
   *
   * @param {number} limit
   */
  const below = (limit) => Math.floor(next() * limit);
  return {
    below,
    /**
     * One of a list.
     *
     * @template T
     * @param {readonly T[]} list
     */
    pick: (list) => list[below(list.length)],
    /**
     * True once in so many times.
     *
     * @param {number} times
     */
    oneIn: (times) => below(times) === 0,
    /**
     * A text of random bytes.
     *
     * @param {number} length
     */
    bytes: (length) => Array.from({ length }, () => String.fromCharCode(below(256))).join(''),
  };
}
