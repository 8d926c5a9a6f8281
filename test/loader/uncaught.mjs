// Replaces async-hook-domain within tap. That package tracks each promise to find the test that an
// uncaught error belongs to, which takes a sixth of the suite's processor time. Here, the error
// fails the file as a test of its own, with its stack.

/** @type {Set<Domain>} of the tests that have not ended, the root test first */
const open = new Set();

export class Domain {
  /** @param {(error: unknown, origin: string) => void} onerror */
  constructor(onerror) {
    this.onerror = onerror; // oxlint-disable-line unicorn/prefer-add-event-listener -- a property that tap calls
    open.add(this);
  }

  destroy() {
    open.delete(this);
  }
}

for (const origin of ['uncaughtException', 'unhandledRejection'])
  process.on(origin, (error) => {
    // A test with its own listener expects the error.
    if (process.listenerCount(origin) > 1) return;
    const [root] = open;
    if (root === undefined) throw error;
    root.onerror(error, origin);
  });
