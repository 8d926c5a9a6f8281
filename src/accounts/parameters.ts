import { z } from 'zod';
import { isName, isStorable, MAX_NAME, MAX_PASSWORD, MAX_SERVICES, NAME_FORM } from '../domain/limits.js';
import type { Refusal } from '../domain/refusal.js';
import { parseTime } from '../util/time.js';
import { ID, loginKey } from '../domain/user.js';

/** In canonical form and UTF-8 bytes: NFKC expands some characters to 54 bytes. */
const MAX_LOGIN = 1024;

export const credentials = credentialsOr('The username and password are required');

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
  return { refusal: 'grant', ...refusal, detail: firstMessage(read.error.issues) };
}

/** Missing values are reported before values that are too long, and those before invalid ones. */
const ORDER: readonly string[] = ['invalid_type', 'too_small', 'too_big'];

function firstMessage(issues: readonly z.core.$ZodIssue[]): string {
  const [first] = issues.toSorted((a, b) => rankOf(a) - rankOf(b));
  return first?.message ?? 'The request is not valid';
}

function rankOf({ code }: z.core.$ZodIssue): number {
  return ORDER.includes(code) ? ORDER.indexOf(code) : ORDER.length;
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
