import t from 'tap';
import type { Address } from '../../src/upstream/address.js';
import { BrokenStream, NotProcessed, NotSent, UpstreamFault } from '../../src/upstream/faults.js';
import { RetryState, type Upstream } from '../../src/upstream/upstreams.js';

/** Returns whether a request that failed after it was sent goes to the next address. */
function isResent(error: Error, { bodyUnsent, idempotent }: { bodyUnsent: boolean; idempotent: boolean }) {
  const none = () => undefined;
  const address = () => ({ active: 0 }) as unknown as Address;
  const upstream = { choose: address, settings: { retries: 1 }, report: none, failed: none };
  const state = new RetryState(upstream as unknown as Upstream);
  state.begin();
  state.sent = true;
  return state.nextAddress(error, bodyUnsent, idempotent) !== undefined;
}

t.test('what died with a shared connection is resent only if it was not processed', async (t) => {
  const read = { bodyUnsent: true, idempotent: true };
  const write = { bodyUnsent: true, idempotent: false };
  const begun = { bodyUnsent: false, idempotent: false };
  const rows: [Error, boolean, boolean, boolean][] = [
    [new BrokenStream('closed'), false, false, false],
    [new NotProcessed('refused'), true, true, false],
    [new NotSent('closed'), true, true, false],
    [new UpstreamFault('closed'), true, false, false],
  ];
  for (const [error, ...wanted] of rows)
    t.strictSame([read, write, begun].map((each) => isResent(error, each)), wanted, error.constructor.name);
}); // prettier-ignore

t.test('a request counts at its address until it ends, once', async (t) => {
  const address = { active: 0 } as unknown as Address;
  const upstream = { choose: () => address, settings: { retries: 0 } } as unknown as Upstream;
  const [first, second] = [new RetryState(upstream), new RetryState(upstream)];
  for (const each of [first, second]) each.begin();
  t.equal(address.active, 2);
  for (const each of [first, first]) each.end();
  t.equal(address.active, 1);
  second.end();
  t.equal(address.active, 0);
});
