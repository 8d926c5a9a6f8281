import type { Claims } from './decode.js';

/** Who may come with a JWT of an issuer, and as what (`jwt_issuers.subjects`). */
export interface SubjectRule {
  readonly claims: Readonly<Record<string, string>>;
  readonly customer_id: string;
  readonly role: string;
  readonly scope: readonly string[];
  readonly services?: readonly string[] | undefined;
}

/** One claim that a rule asks for, and what the JWT says. */
export interface ComparedClaim {
  readonly name: string;
  readonly wanted: string;
  /** null when the JWT has no such claim, or one that is neither text, a number, yes or no, nor a list of these. */
  readonly given: string | readonly string[] | null;
  readonly fits: boolean;
}

/** The first rule whose claims all fit; undefined when none does. */
export function ruleFor<Rule extends Pick<SubjectRule, 'claims'>>(
  rules: readonly Rule[],
  claims: Claims,
): Rule | undefined {
  return rules.find((rule) => compareClaims(rule, claims).every(({ fits }) => fits));
}

/** What a rule asks for, claim by claim. Claims within claims are never looked into. */
export function compareClaims(
  { claims: wanted }: Pick<SubjectRule, 'claims'>,
  claims: Claims,
): ComparedClaim[] {
  return Object.entries(wanted).map(([name, pattern]) => {
    const given = Object.hasOwn(claims, name) ? valueOf(claims[name]) : null;
    const fits = given !== null && [given].flat().some((each) => matches(pattern, each));
    return { name, wanted: pattern, given, fits };
  });
}

function valueOf(claim: unknown): string | string[] | null {
  if (isPlain(claim)) return String(claim);
  return Array.isArray(claim) && claim.every(isPlain) ? claim.map(String) : null;
}

function isPlain(value: unknown): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}

/** @param pattern a value, or one with `*` at its beginning or its end */
function matches(pattern: string, value: string): boolean {
  if (pattern.endsWith('*')) return value.startsWith(pattern.slice(0, -1));
  if (pattern.startsWith('*')) return value.endsWith(pattern.slice(1));
  return value === pattern;
}
