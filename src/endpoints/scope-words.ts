import type { Rules } from '../policy/rules.js';

export interface ScopeWords {
  readonly name: string;
  readonly title: string;
  readonly description: string;
}

export interface DescribedRules extends Rules {
  readonly description?: string | undefined;
}

/** By permission and not by scope name, because a configuration can redefine names. */
const KNOWN: readonly (readonly [allow: string, title: string, description: string])[] = [
  ['*', 'Full access', 'Can do everything that you can do, in the services and in the account.'],
  ['*:read', 'Read only', 'Can read everything that you can read, and changes nothing.'],
  ['purge:select', 'Purge selected', 'Can purge by URL and by surrogate key, and nothing else.'],
  ['purge:all', 'Purge all', 'Can purge everything in a service at once, and nothing else.'],
];

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
