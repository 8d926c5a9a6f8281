export interface Rules {
  readonly allow?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
}

/**
 * Whether a pattern covers an action `resource:verb`; a `*` stands for everything, any resource or any verb.
 */
export function covers(pattern: string, action: string): boolean {
  if (pattern === '*' || pattern === action) return true;
  const [resource, verb] = split(pattern);
  const [actionResource, actionVerb] = split(action);
  return (resource === '*' || resource === actionResource) && (verb === '*' || verb === actionVerb);
}

/** Whether a set of rules allows an action: something allows it and nothing denies it. */
export function allows(rules: Rules, action: string): boolean {
  if (rules.deny?.some((pattern) => covers(pattern, action))) return false;
  return rules.allow?.some((pattern) => covers(pattern, action)) ?? false;
}

function split(text: string): [string, string] {
  const colon = text.indexOf(':');
  return [text.slice(0, colon), text.slice(colon + 1)];
}

/** Whether `wide` allows everything that `narrow` allows. False when uncertain. */
export function includes(wide: Rules, narrow: Rules): boolean {
  const { allow = [], deny = [] } = narrow;
  const isAllowed = (pattern: string) => wide.allow?.some((each) => contains(each, pattern)) === true;
  const isHarmless = (denied: string) =>
    deny.some((each) => contains(each, denied)) || !allow.some((each) => overlap(each, denied));
  return allow.every(isAllowed) && (wide.deny ?? []).every(isHarmless);
}

function contains(wide: string, narrow: string): boolean {
  return covers(wide, narrow === '*' ? '*:*' : narrow);
}

/** Whether an action may exist that both patterns cover. */
function overlap(a: string, b: string): boolean {
  const [resourceA = '', verbA = '*'] = a.split(':', 2);
  const [resourceB = '', verbB = '*'] = b.split(':', 2);
  return overlaps(resourceA, resourceB) && overlaps(verbA, verbB);
}

function overlaps(a: string, b: string): boolean {
  return a === '*' || b === '*' || a === b;
}
