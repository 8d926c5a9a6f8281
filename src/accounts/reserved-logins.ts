/** Beginnings of the logins of users that Latchkey makes or keeps itself. */
export const RESERVED_LOGINS = ['global-api-token+', 'deletion-pending+'] as const;

/** Whether a login, as it is compared, is one that Latchkey gives itself. */
export function isReservedLogin(key: string): boolean {
  return RESERVED_LOGINS.some((beginning) => key.startsWith(beginning));
}
