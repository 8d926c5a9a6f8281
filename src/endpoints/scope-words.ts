import type { Rules } from '../policy/patterns.js';

/** A scope described for people who choose one. */
export interface ScopeWords {
  readonly name: string;
  readonly title: string;
  readonly description: string;
}

export interface DescribedRules extends Rules {
  readonly description?: string | undefined;
}

/** Descriptions by permission and not by scope name, because a configuration can redefine names. */
const KNOWN: readonly (readonly [allow: string, title: string, description: string])[] = [
  ['*', 'Full access', 'Does everything that you may do yourself, in the services and in the account.'],
  ['*:read', 'Read only', 'Reads everything that you may see, and changes nothing.'],
  ['purge:select', 'Purge selected', 'Purges by URL and by surrogate key, and does nothing else.'],
  ['purge:all', 'Purge all', 'Purges everything of a service at once, and does nothing else.'],
];

/** Describes what a scope permits: the configuration's text, or one generated from its rules. */
export function describeScope(
  name: string,
  { allow = [], deny = [], description }: DescribedRules,
): ScopeWords {
  const known =
    allow.length === 1 && deny.length === 0 ? KNOWN.find(([rule]) => rule === allow[0]) : undefined;
  if (description !== undefined) return { name, title: known?.[1] ?? name, description };
  if (known !== undefined) return { name, title: known[1], description: known[2] };
  const may = allow.length === 0 ? 'Allows nothing' : `Allows ${allow.join(', ')}`;
  const but = deny.length === 0 ? '' : `, but never ${deny.join(', ')}`;
  return { name, title: name, description: `${may}${but}.` };
}
