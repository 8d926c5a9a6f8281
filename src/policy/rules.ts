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

/** The line of each part of the configuration file, by its keys from the root, joined by dots. */
export type Lines = Readonly<Record<string, number>>;

export interface ConfigPosition {
  readonly path: string;
  readonly line: number | null;
}

export interface Rule {
  /** `no_allow`: no pattern matched; `unknown`: no table has the name. */
  readonly effect: 'allow' | 'deny' | 'no_allow' | 'unknown';
  readonly pattern: string | null;
  readonly position: ConfigPosition;
}

/** A table of rules by name (roles, scopes) that evaluates each action once. */
export class RuleTable<T> {
  readonly #rows = new Map<string, { rules: Rules; results: Map<string, T> }>();
  readonly #path: readonly string[];
  readonly #lines: Lines;
  readonly #createResult: (allowed: boolean, rule: Rule, name: string, action: string) => T;

  constructor(
    table: Readonly<Record<string, Rules>>,
    path: readonly string[],
    lines: Lines,
    answer: (allowed: boolean, rule: Rule, name: string, action: string) => T,
  ) {
    for (const [name, rules] of Object.entries(table)) this.#rows.set(name, { rules, results: new Map() });
    this.#path = path;
    this.#lines = lines;
    this.#createResult = answer;
  }

  someAllows(action: string): boolean {
    return [...this.#rows.values()].some(({ rules }) => allows(rules, action));
  }

  /** Whether a row allows everything that another one allows. Returns false when uncertain. */
  rowIncludes(wide: string, narrow: string): boolean {
    if (wide === narrow) return true;
    const [wideRow, narrowRow] = [this.#rows.get(wide), this.#rows.get(narrow)];
    return narrowRow === undefined || (wideRow !== undefined && includes(wideRow.rules, narrowRow.rules));
  }

  /** Actions come from the configuration, so the cache stays small. */
  evaluate(name: string, action: string): T {
    const row = this.#rows.get(name);
    if (row === undefined) return this.#createResult(false, this.#rule('unknown', null, []), name, action);
    let result = row.results.get(action);
    if (result === undefined) {
      const rule = this.#find(name, row.rules, action);
      row.results.set(action, (result = this.#createResult(rule.effect === 'allow', rule, name, action)));
    }
    return result;
  }

  #find(name: string, { allow = [], deny = [] }: Rules, action: string): Rule {
    const denied = deny.findIndex((pattern) => covers(pattern, action));
    if (denied >= 0) return this.#rule('deny', deny[denied] as string, [name, 'deny', denied]);
    const allowed = allow.findIndex((pattern) => covers(pattern, action));
    if (allowed >= 0) return this.#rule('allow', allow[allowed] as string, [name, 'allow', allowed]);
    return this.#rule('no_allow', null, [name]);
  }

  #rule(effect: Rule['effect'], pattern: string | null, below: readonly (string | number)[]): Rule {
    return { effect, pattern, position: positionOf([...this.#path, ...below], this.#lines) };
  }
}

export function positionOf(path: readonly (string | number)[], lines: Lines): ConfigPosition {
  const key = path.join('.');
  return { path: key, line: (Object.hasOwn(lines, key) ? lines[key] : undefined) ?? null };
}

/** Formats a position for people: `policy.roles.engineer.deny.0, line 41`. */
export function describePosition({ path, line }: ConfigPosition): string {
  return line === null ? `${path}, built in` : `${path}, line ${line}`;
}
