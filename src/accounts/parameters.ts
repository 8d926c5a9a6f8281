import { z } from 'zod';
import {
  isName,
  isStorable,
  MAX_ADDRESSES,
  MAX_NAME,
  MAX_PASSWORD,
  MAX_SERVICES,
  NAME_FORM,
} from '../domain/limits.js';
import { parseRate, RATE_FORM, type TokenRestrictions } from '../domain/token.js';
import type { Refusal } from '../domain/refusal.js';
import { ID, loginKey } from '../domain/user.js';
import { parseRange } from '../util/addresses.js';
import { isOneEdit } from '../util/text.js';
import { parseTime } from '../util/time.js';

/** In canonical form and UTF-8 bytes: NFKC expands some characters to 54 bytes. */
const MAX_LOGIN = 1024;

export const credentials = credentialsOr(
  'The username and password are required, as username (at POST /login: user) and password',
);

/** For a request whose credential identifies the user. */
export const confirmation = credentialsOr('The password is required');

/** Of a new token, each value as text. */
export const tokenParameters = {
  scope: z
    .string()
    .regex(/[^ ]/, 'The scope is empty')
    .default('global')
    .transform((text) => unique(text.split(' ').filter((name) => name !== ''))),
  expiresAt: z
    .string()
    .transform((text, context) => {
      const at = parseTime(text);
      if (at === undefined) {
        const message = 'expires_at must be an ISO 8601 date-time with an offset, like 2030-01-31T12:00:00Z';
        context.addIssue({ code: 'custom', message });
      }
      return at ?? z.NEVER;
    })
    .optional(),
  services: z
    .array(
      z
        .string()
        .min(1, 'A service restriction must name a service')
        .regex(ID, { error: ({ input }) => unknownService(String(input)) }),
    )
    .max(MAX_SERVICES, `More than ${MAX_SERVICES} services`)
    .transform(unique),
  name: z
    .string()
    .refine(isName, `The name must be ${NAME_FORM}`)
    .meta({ minLength: 1, maxLength: MAX_NAME })
    .default(''),
} as const;

export function unknownService(id: string): string {
  return `The service ${JSON.stringify(id)} is unknown`;
}

/** @param refusal status and code if the value does not match the schema */
export function readBy<Value>(
  schema: z.ZodType<Value>,
  value: unknown,
  refusal: Pick<Extract<Refusal, { refusal: 'grant' }>, 'status' | 'code'>,
): { readonly value: Value } | Refusal {
  const read = schema.safeParse(value);
  if (read.success) return { value: read.data };
  const detail = read.error.issues[0]?.message ?? 'The request is not valid';
  return { refusal: 'grant', ...refusal, detail };
}

/** The limits are in bytes, but the published schema can only state them in characters. */
function credentialsOr(missing: string) {
  const present = (what: string, max: number, tooLong: string, form: (text: string) => string) =>
    z
      .string(missing)
      .min(1, missing)
      .refine((text) => form(text) !== '', missing)
      .refine(isStorable, `The ${what} is not well-formed Unicode`)
      .refine((text) => text.length <= max && Buffer.byteLength(form(text)) <= max, tooLong)
      .meta({ maxLength: max });
  return z.object({
    password: present(
      'password',
      MAX_PASSWORD,
      `The password is longer than ${MAX_PASSWORD} bytes`,
      (text) => text,
    ),
    login: present('username', MAX_LOGIN, 'The username is too long', loginKey),
  });
}

function unique(values: readonly string[]): string[] {
  return [...new Set(values)];
}

const rate = z
  .string('rate must be a string')
  .refine((text) => parseRate(text) !== undefined, `rate must be a rate ${RATE_FORM}`)
  .meta({ examples: ['600/1m'] });

const NOT_A_RANGE =
  'addresses must be IP addresses and ranges like 10.0.0.0/8, without bits set after the prefix';

const addresses = z
  .array(
    z.string(NOT_A_RANGE).refine((text) => parseRange(text) !== undefined, NOT_A_RANGE),
    'addresses must be a list',
  )
  .min(1, 'addresses must name an address; leave it out for no limit')
  .max(MAX_ADDRESSES, `More than ${MAX_ADDRESSES} addresses`)
  .transform((texts) => [...new Set(texts)])
  .meta({ examples: [['10.0.0.0/8', '192.0.2.7']] });

/** Of a new token, each value as text. */
export const restrictionParameters = {
  rate: rate.optional(),
  addresses: addresses.optional(),
  suspended: z
    .enum(['true', 'false'], 'suspended must be true or false')
    .transform((text) => text === 'true')
    .optional(),
} as const;

/** Absent members stay; null removes a limit. */
export const restrictionChange = z.strictObject(
  {
    suspended: z.boolean('suspended must be true or false').optional(),
    rate: rate.nullable().optional(),
    addresses: addresses.nullable().optional(),
  },
  {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `Only suspended, rate and addresses can be changed, not ${JSON.stringify(issue.keys[0])}`
        : undefined,
  },
);

export type RestrictionChange = z.output<typeof restrictionChange>;

/** Undefined if no limits are left. */
export function restrictionsAfter(
  before: TokenRestrictions | undefined,
  change: RestrictionChange,
): TokenRestrictions | undefined {
  const suspended = change.suspended ?? before?.suspended ?? false;
  const rate = change.rate === undefined ? before?.rate : change.rate;
  const addresses = change.addresses === undefined ? before?.addresses : change.addresses;
  const after = {
    ...(suspended ? { suspended: true as const } : {}),
    ...(rate == null ? {} : { rate }),
    ...(addresses == null ? {} : { addresses }),
  };
  return Object.keys(after).length === 0 ? undefined : after;
}

/** With common wrong names for them. */
const RESTRICTIONS: readonly { readonly name: string; readonly others: readonly string[] }[] = [
  { name: 'scope', others: ['scopes'] },
  { name: 'services', others: ['service'] },
  { name: 'service_id', others: [] },
  { name: 'expires_at', others: ['expires', 'expiry', 'expires_in', 'expiration'] },
  { name: 'rate', others: ['rate_limit', 'ratelimit'] },
  { name: 'addresses', others: ['address', 'cidr', 'cidrs'] },
  { name: 'suspended', others: ['suspend'] },
];

/** Compared with brackets: an edit may concern a bracket. */
const WHOLE_NAMES = ['scope', 'services', 'services[]', 'service_id', 'expires_at'] as const;

/** In body or query. Otherwise a token would lack a restriction that someone meant to set. */
export function firstMistaken(names: readonly string[]): string | undefined {
  return firstRefused(names, (name) => {
    const meant = suggestRestriction(name);
    return meant && `send "${meant}" in the body`;
  });
}

/** The same for a rotation. */
export function firstMistakenInRotation(names: readonly string[]): string | undefined {
  return firstRefused(names, (name) => {
    const base = baseOf(lowerLetters(name));
    if (base === 'overlap' || isOneEdit(base, 'overlap')) return 'send "overlap" in the body';
    return suggestRestriction(name) && 'a rotation keeps the restrictions of the old token';
  });
}

function firstRefused(
  names: readonly string[],
  explain: (name: string) => string | undefined,
): string | undefined {
  for (const name of names) {
    const why = explain(name);
    if (why !== undefined)
      return `The parameter ${JSON.stringify(name.slice(0, MAX_QUOTED))} is not accepted; ${why}`;
  }
  return undefined;
}

const MAX_QUOTED = 64;

function suggestRestriction(name: string): string | undefined {
  const lower = lowerLetters(name);
  const base = baseOf(lower);
  const known = RESTRICTIONS.find(({ name, others }) => base === name || others.includes(base));
  if (known !== undefined) return known.name;
  const near = RESTRICTIONS.find((each) => isOneEdit(base, each.name))?.name;
  return near ?? WHOLE_NAMES.find((whole) => isOneEdit(lower, whole));
}

function baseOf(name: string): string {
  const bracket = name.indexOf('[');
  return bracket < 0 ? name : name.slice(0, bracket);
}

/** Other letters may become two characters in lower case, which would count as two edits. */
function lowerLetters(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
