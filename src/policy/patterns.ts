/** Patterns over actions, as a role or a scope lists them. */
export interface Rules {
  readonly allow?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
}

/**
 * Whether a pattern covers an action `resource:verb`.
 *
 * `*` covers everything; a `*` in place of the resource or the verb covers any; else it is the action itself.
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
