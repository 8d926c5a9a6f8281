import type { Failure, Scope, Service } from './api.js';

const UNNAMED = 'Unnamed token';

/** Tokens that share the fate of the one that they came from by rotation. */
export function withFurther(count = 0): string {
  if (count === 0) return '';
  return count === 1
    ? ', with the token that replaced it'
    : `, with ${count} tokens that came from it by rotation`;
}

export function nameOf(token: { readonly name: string }): string {
  return token.name.trim() === '' ? UNNAMED : token.name;
}

export function scopeTitles(names: readonly string[], scopes: readonly Scope[]): string {
  return names.map((name) => scopes.find((scope) => scope.name === name)?.title ?? name).join(', ');
}

export function serviceNames(ids: readonly string[], services: readonly Service[]): string {
  if (ids.length === 0) return 'All services';
  return ids.map((id) => services.find((service) => service.id === id)?.name || id).join(', ');
}

const BROWSERS: readonly (readonly [name: string, pattern: RegExp])[] = [
  ['Edge', /\bEdg\/(\d+)/],
  ['Opera', /\bOPR\/(\d+)/],
  ['Firefox', /\bFirefox\/(\d+)/],
  ['Chrome', /\b(?:Headless)?Chrome\/(\d+)/],
  ['Safari', /\bVersion\/(\d+)[\d.]* (?:Mobile\/\S+ )?Safari\//],
];

const SYSTEMS: readonly (readonly [name: string, pattern: RegExp])[] = [
  ['Android', /Android/],
  ['iPhone', /iPhone/],
  ['iPad', /iPad/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS X/],
  ['ChromeOS', /CrOS/],
  ['Linux', /Linux/],
];

export function describeClient(userAgent: string | null): string {
  if (userAgent === null || userAgent.trim() === '') return 'unnamed client';
  for (const [name, pattern] of BROWSERS) {
    const version = pattern.exec(userAgent)?.[1];
    if (version === undefined) continue;
    const system = SYSTEMS.find(([, fits]) => fits.test(userAgent))?.[0];
    return system === undefined ? `${name} ${version}` : `${name} ${version} on ${system}`;
  }
  const [program = userAgent] = userAgent.split(/[\s;(]/, 1);
  const [name = '', version = ''] = program.split('/');
  return version === '' ? name : `${name} ${version}`;
}

const LOGIN_FAILURES: Readonly<Record<string, string>> = {
  provider_unavailable: 'The identity provider is not responding. Try again in a moment.',
  provider_refused:
    'The identity provider refused the login, or you canceled it. Try again, or ask your administrator.',
  not_begun: 'The login took too long, or was started in another browser. Try again.',
  not_fresh: 'The identity provider did not ask you to log in again. Ask your administrator.',
  login_missing: 'The identity provider did not send your login name. Ask your administrator.',
  email_unverified:
    'Your e-mail address is not verified at the identity provider. Verify it there, then log in again.',
  no_role: 'Your account at the identity provider gives you no role here. Ask your administrator.',
  login_taken: 'Your login name belongs to another account here. Ask your administrator.',
  logged_out: 'The identity provider ended your session during the login. Log in again.',
  locked: 'This account is locked. Ask your administrator to unlock it.',
};

export function explainLoginFailure(code: string): string {
  const known = Object.hasOwn(LOGIN_FAILURES, code) ? LOGIN_FAILURES[code] : undefined;
  return known ?? 'The login failed. Try again, or ask your administrator.';
}

export function explainFailure(failure: Failure): string {
  switch (failure.kind) {
    case 'no_answer':
      return 'The server did not respond. Check your connection, then try again.';
    case 'ended':
      return 'Your session has ended. Log in again.';
    case 'refused':
      return explainRefused(failure);
  }
}

function explainRefused({ status, code, detail, retryAfter }: Failure & { kind: 'refused' }): string {
  const wait = retryAfter === null ? 'a moment' : formatWait(retryAfter);
  if (code === 'invalid_grant') return 'The login name or the password is wrong. Check both and try again.';
  if (code === 'account_locked') return 'This account is locked. Ask your administrator to unlock it.';
  if (code === '2fa.verify')
    return 'The one-time password is wrong, expired or already used. Wait for the next one, then enter it.';
  if (status === 429) return `Too many requests. Wait ${wait}, then try again.`;
  if (status === 403) return `You are not allowed to do this. ${sentence(detail)}`;
  if (status === 404) return `It no longer exists. ${sentence(detail)}`;
  if (status >= 500) return `The server cannot do this now. Wait ${wait}, then try again.`;
  return `This was refused. ${sentence(detail)}`;
}

function sentence(text: string): string {
  if (text === '') return '';
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function formatWait(seconds: number): string {
  if (seconds <= 1) return 'a second';
  if (seconds < 120) return `${seconds} seconds`;
  return `${Math.ceil(seconds / 60)} minutes`;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

const LOCALE = 'en-GB';
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'always' });

/** In the user's time zone. */
export function formatMoment(at: number, now: number): string {
  const date = new Date(at);
  const time = date.toLocaleTimeString(LOCALE, { hour: '2-digit', minute: '2-digit' });
  // Of whole days, in the user's time zone.
  const days = (Date.parse(inputDay(at)) - Date.parse(inputDay(now))) / DAY;
  if (days === 0) return `Today, ${time}`;
  if (days === -1) return `Yesterday, ${time}`;
  if (days === 1) return `Tomorrow, ${time}`;
  const day = date.toLocaleDateString(LOCALE, { day: 'numeric', month: 'short', year: 'numeric' });
  return `${day}, ${time}`;
}

export function formatUtc(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** In units that have passed, so it does not say "tomorrow": 30 hours ahead may be a day later. */
export function formatDistance(at: number, now: number): string {
  const distance = at - now;
  const size = Math.abs(distance);
  if (size < MINUTE) return distance <= 0 ? 'just now' : 'in less than a minute';
  if (size < HOUR) return RELATIVE.format(Math.trunc(distance / MINUTE), 'minute');
  if (size < DAY) return RELATIVE.format(Math.trunc(distance / HOUR), 'hour');
  if (size < 61 * DAY) return RELATIVE.format(Math.trunc(distance / DAY), 'day');
  if (size < 731 * DAY) return RELATIVE.format(Math.trunc(distance / (30.44 * DAY)), 'month');
  return RELATIVE.format(Math.trunc(distance / (365.25 * DAY)), 'year');
}

type ExpiryState = 'never' | 'later' | 'soon' | 'past';

/** @param warnBefore milliseconds before the expiry from which on it is soon */
export function expiryState(expiresAt: string | null, warnBefore: number, now: number): ExpiryState {
  if (expiresAt === null) return 'never';
  const left = Date.parse(expiresAt) - now;
  if (left <= 0) return 'past';
  return left <= warnBefore ? 'soon' : 'later';
}

/** In the user's time zone; NaN for an invalid day. */
export function endOfDay(day: string): number {
  const at = Date.parse(`${day}T23:59:59`);
  return /^\d{4}-\d\d-\d\d$/.test(day) ? at : Number.NaN;
}

/** The day in the user's time zone, as date inputs have it: Swedish dates are those of ISO 8601. */
export function inputDay(at: number): string {
  return new Date(at).toLocaleDateString('sv-SE');
}
