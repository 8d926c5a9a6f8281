import * as fc from 'fast-check';
import assert from 'node:assert';
import { LinkedQueue, type Node } from '../../src/util/collections.js';
import { property } from '../helpers/property.js';

/**
 * Operations: a member is added, or an earlier one renews its hold or leaves, while time passes.
 */
const steps = fc.array(
  fc.oneof(
    fc.record({ does: fc.constant('add' as const), which: fc.nat() }),
    fc.record({ does: fc.constantFrom('renew' as const, 'remove' as const), which: fc.nat() }),
  ),
  { maxLength: 60 },
);

property('a queue ordered by time behaves like a sorted array', 500, steps, (all) => {
  const list = new LinkedQueue<number>();
  const nodes: Node<number>[] = [];
  let model: { member: number; renewedAt: number }[] = [];
  all.forEach(({ does, which }, now) => {
    if (does === 'add') {
      model.push({ member: nodes.length, renewedAt: now });
      nodes.push(list.add(nodes.length, now));
    } else if (nodes.length > 0) {
      const member = which % nodes.length;
      const node = nodes[member] as Node<number>;
      const isIn = model.some((each) => each.member === member);
      model = model.filter((each) => each.member !== member);
      if (does === 'remove') list.remove(node);
      else if (isIn) {
        list.renew(node, now);
        model.push({ member, renewedAt: now });
      }
    }
    assert.equal(list.size, model.length);
    for (const time of [-1, now / 2, now]) {
      const expected = model.filter(({ renewedAt }) => renewedAt <= time).map(({ member }) => member);
      assert.deepEqual(
        list.renewedBefore(time).map(({ member }) => member),
        expected,
      );
    }
  });
  for (const node of nodes.filter(({ isRemoved }) => isRemoved))
    assert.ok(node.before === undefined && node.after === undefined, 'a removed node has no links');
});
