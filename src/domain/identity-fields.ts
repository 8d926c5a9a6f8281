/** The facts about a user that upstreams learn. A fact without a value is empty. */
export interface IdentityFacts {
  readonly user_id: string;
  readonly customer_id: string;
  readonly login: string;
  readonly role: string;
  readonly scope: string;
  readonly services: string;
  readonly credential: string;
  readonly token_id: string;
}

/** Name of each injected field by what it says; null leaves it out (`identity.headers`). */
export type IdentityNames = Readonly<Record<keyof IdentityFacts, string | null>>;

/** The fields that say who sent a request: names and values, in turn. A fact without a value has none. */
export function factFields(names: IdentityNames, facts: IdentityFacts): string[] {
  const fields: string[] = [];
  add(fields, names.user_id, facts.user_id);
  add(fields, names.customer_id, facts.customer_id);
  add(fields, names.login, facts.login);
  add(fields, names.role, facts.role);
  add(fields, names.scope, facts.scope);
  add(fields, names.services, facts.services);
  add(fields, names.credential, facts.credential);
  add(fields, names.token_id, facts.token_id);
  return fields;
}

function add(fields: string[], name: string | null, value: string): void {
  if (name !== null && value !== '') fields.push(name, fieldValueOf(value));
}

/** Percent-encodes (UTF-8) what a field can't carry: all but visible ASCII and space; `%` too, to stay reversible. */
function fieldValueOf(value: string): string {
  return /^[\x21-\x24\x26-\x7e](?:[\x20-\x24\x26-\x7e]*[\x21-\x24\x26-\x7e])?$/.test(value)
    ? value
    : encodeURIComponent(value.toWellFormed());
}
