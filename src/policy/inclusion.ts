import { covers, type Rules } from './patterns.js';

/** Whether everything that some rules allow is allowed by others too. In doubt it says no. */
export function includes(wide: Rules, narrow: Rules): boolean {
  const { allow = [], deny = [] } = narrow;
  const isAllowed = (pattern: string) => wide.allow?.some((each) => contains(each, pattern)) === true;
  const isHarmless = (denied: string) =>
    deny.some((each) => contains(each, denied)) || !allow.some((each) => overlap(each, denied));
  return allow.every(isAllowed) && (wide.deny ?? []).every(isHarmless);
}

/** Whether a pattern covers each action that another one covers. */
function contains(wide: string, narrow: string): boolean {
  return covers(wide, narrow === '*' ? '*:*' : narrow);
}

/** Whether there may be an action that both patterns cover. */
function overlap(a: string, b: string): boolean {
  const [resourceA = '', verbA = '*'] = a.split(':', 2);
  const [resourceB = '', verbB = '*'] = b.split(':', 2);
  return fits(resourceA, resourceB) && fits(verbA, verbB);
}

function fits(a: string, b: string): boolean {
  return a === '*' || b === '*' || a === b;
}
