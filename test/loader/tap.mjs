// The `tap` that test files import.
import tap from 'tap';

/** @import { TAP, Test } from 'tap' */

/** @type {TAP | Test} */
let current = tap;

/** The root test or, in a shared process, the test of the current file. */
export default new Proxy(tap, {
  get(_root, name) {
    const value = Reflect.get(current, name);
    return typeof value === 'function' ? value.bind(current) : value;
  },
});

/**
 * Runs a file as one test after the earlier ones: its tests end, and what it started is torn down,
 * before the next begins.
 *
 * @param {string} name
 * @param {() => Promise<unknown>} load
 */
export function runFile(name, load) {
  void tap.test(name, async (t) => {
    current = t;
    await load();
  });
}
