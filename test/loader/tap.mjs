// tap, as test files import it.
import tap from 'tap';

/** @import { TAP, Test } from 'tap' */

/** @type {TAP | Test} */
let current = tap;

/** The root of all tests or, where files share a process, the test that stands for the file. */
export default new Proxy(tap, {
  get(_root, name) {
    const value = Reflect.get(current, name);
    return typeof value === 'function' ? value.bind(current) : value;
  },
});

/**
 * Runs a file as one test, after those before it: its tests end, and what it started is torn down, before the next begins.
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
