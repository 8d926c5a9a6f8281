import type { Field, Probe } from './message.js';

/** The headers by which Latchkey identifies the user to an upstream. */
export const IDENTITY_HEADERS: readonly string[] = [
  'X-Auth-User-Id',
  'X-Auth-Customer-Id',
  'X-Auth-Login',
  'X-Auth-Role',
  'X-Auth-Scope',
  'X-Auth-Services',
  'X-Auth-Credential',
  'X-Auth-Token-Id',
  'X-Auth-Assertion',
];

/** Headers that other proxies and frameworks accept as an identity. */
export const OTHER_IDENTITIES: readonly string[] = [
  'X-Forwarded-User',
  'X-Forwarded-Email',
  'X-Forwarded-Groups',
  'X-Auth-Request-User',
  'X-Auth-Request-Email',
  'Remote-User',
  'X-Remote-User',
  'X-WEBAUTH-USER',
  'X-User',
  'X-User-Id',
  'X-Authenticated-User',
  'X-Client-Cert',
  'X-Ssl-Client-Verify',
];

/** A way to send forged fields. */
export interface Spelling {
  readonly label: string;
  readonly probe: (forged: readonly Field[]) => Partial<Probe>;
}

const renamed = (label: string, rename: (name: string) => string): Spelling => ({
  label,
  probe: (forged) => ({ fields: forged.map(([name, value]) => [rename(name), value] as const) }),
});

const separatedBy = (character: string): Spelling =>
  renamed(`with ${character} for -`, (name) => name.replaceAll('-', character));

const underscored = ([name, value]: Field): Field => [name.replaceAll('-', '_'), value];

const asLines = (label: string, line: (field: Field) => string): Spelling => ({
  label,
  probe: (forged) => ({ lines: forged.map(line) }),
});

/** Ways in which a client can send a field so that some reader takes it for the intended one. */
export const SPELLINGS: readonly Spelling[] = [
  renamed('unchanged', (name) => name),
  renamed('in lower case', (name) => name.toLowerCase()),
  renamed('in upper case', (name) => name.toUpperCase()),
  renamed('in mixed case', (name) => name.replaceAll(/../g, ([a = '', b = '']) => a.toLowerCase() + b.toUpperCase())),
  separatedBy('_'),
  separatedBy('.'),
  separatedBy('~'),
  separatedBy('!'),
  renamed('with _ for the first - only', (name) => name.replace('-', '_')),
  renamed('with _ for the last - only', (name) => name.replace(/-(?=[^-]*$)/, '_')),
  renamed('with _ in upper case', (name) => name.replaceAll('-', '_').toUpperCase()),
  { label: 'twice', probe: (forged) => ({ fields: [...forged, ...forged] }) },
  { label: 'twice, empty first', probe: (forged) => ({ fields: [...forged.map(([name]) => [name, ''] as const), ...forged] }) },
  { label: 'with _ and with -', probe: (forged) => ({ fields: [...forged.map(underscored), ...forged] }) },
  { label: 'with - and with _', probe: (forged) => ({ fields: [...forged, ...forged.map(underscored)] }) },
  {
    label: 'named in Connection',
    probe: (forged) => ({ fields: [['Connection', ['close', ...forged.map(([name]) => name)].join(', ')], ...forged] }),
  },
  {
    label: 'in trailers',
    probe: (forged) => ({
      fields: [['Transfer-Encoding', 'chunked'], ['TE', 'trailers'], ['Trailer', forged.map(([name]) => name).join(', ')]],
      body: `0\r\n${forged.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
    }),
  },
  asLines('with a space before the colon', ([name, value]) => `${name} : ${value}`),
  asLines('with a tab before the colon', ([name, value]) => `${name}\t: ${value}`),
  asLines('after a bare LF', ([name, value]) => `X-Latchkey-Doctor: 1\n${name}: ${value}`),
  asLines('after a bare CR', ([name, value]) => `X-Latchkey-Doctor: 1\r${name}: ${value}`),
  asLines('after a folded line', ([name, value]) => `X-Latchkey-Doctor: 1\r\n ${name}: ${value}`),
  asLines('with a folded value', ([name, value]) => `${name}:\r\n ${value}`),
  asLines('with a NUL in the name', ([name, value]) => `${name}\0: ${value}`),
]; // prettier-ignore
