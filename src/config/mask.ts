const MASK = '***';
const SECRET = /password|secret|sealing_key|passphrase/;

/** A configuration as it may be shown: no passwords and keys, and no user, password or query in a URL. */
export function maskSecrets(value: unknown, key = ''): unknown {
  if (typeof value === 'string') return SECRET.test(key) ? MASK : maskUrl(value);
  if (Array.isArray(value)) return value.map((each) => maskSecrets(each, key));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, maskSecrets(each, name)]));
}

function maskUrl(text: string): string {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text) || !URL.canParse(text)) return text;
  const url = new URL(text);
  if (url.username === '' && url.password === '' && url.search === '') return text;
  if (url.username !== '') url.username = MASK;
  if (url.password !== '') url.password = MASK;
  if (url.search !== '') url.search = MASK;
  return url.href;
}
