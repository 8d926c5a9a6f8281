import type { JSONWebKeySet } from 'jose';
import { isKeySetUrl } from '../../config/schema/units.js';
import { parseUntrustedJson } from '../../util/json.js';
import type { ConnectionFailed } from '../../util/system-error.js';
import { quoted } from '../../util/text.js';
import { readRegularFile } from '../../files/files.js';
import { fetchLimited } from '../../net/fetch-limited.js';

const MAX_DOCUMENT = 256 * 1024;
const MAX_KEYS = 100;
/** From the connection to the last byte. */
const TIMEOUT_MS = 5_000;

/** @throws Error that gives the reason */
export type KeySource = () => Promise<JSONWebKeySet>;

/** Null: found by discovery. */
type KeyLocation = { readonly url: string } | { readonly file: string } | null;

/** Of an issuer or a provider. */
export interface IssuerAddress {
  readonly issuer: string;
  readonly discovery?: string | null;
  readonly tls?: { readonly ca: string } | null;
}

export function createKeySource(issuer: IssuerAddress, location: KeyLocation): KeySource {
  if (location !== null && 'file' in location)
    return async () => keysOf(readRegularFile(location.file, MAX_DOCUMENT).toString());
  if (location !== null) return async () => keysOf(await get(location.url, issuer));
  return async () => keysOf(await get(await discover(issuer), issuer));
}

/** In PEM; undefined for the public ones. Read each time: files may be replaced. */
export function authoritiesOf({ tls }: IssuerAddress): string | undefined {
  return tls == null ? undefined : readRegularFile(tls.ca).toString();
}

/** OpenID Connect Discovery 1.0, 4. @throws Error that gives the reason */
export async function fetchConfiguration(address: IssuerAddress): Promise<Record<string, unknown>> {
  const { issuer, discovery } = address;
  const url = discovery ?? `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  if (!isKeySetUrl(new URL(url))) throw new Error('the issuer is not an https:// URL');
  const configuration = objectIn(await get(url, address));
  const declared = configuration['issuer'];
  if (declared !== issuer)
    throw new Error(`its configuration names the issuer ${quoted(String(declared))}, not ${issuer}`);
  return configuration;
}

async function discover(address: IssuerAddress): Promise<string> {
  const { jwks_uri: uri } = await fetchConfiguration(address);
  if (typeof uri !== 'string' || !URL.canParse(uri) || !isKeySetUrl(new URL(uri)))
    throw new Error('its configuration has no jwks_uri with https://');
  return uri;
}

function keysOf(text: string): JSONWebKeySet {
  const { keys } = objectIn(text);
  if (!Array.isArray(keys) || keys.length > MAX_KEYS)
    throw new Error(`it is not a key set of up to ${MAX_KEYS} keys`);
  return { keys: keys.filter(isPublicKey) };
}

/** Excludes symmetric keys, which do not belong in a published set. */
function isPublicKey(key: unknown): key is JSONWebKeySet['keys'][number] {
  return typeof key === 'object' && key !== null && ['RSA', 'EC', 'OKP'].includes((key as { kty?: string }).kty ?? '');
} // prettier-ignore

function objectIn(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = parseUntrustedJson(text);
  } catch {
    value = null;
  }
  if (typeof value !== 'object' || value === null) throw new Error('it is not a JSON object');
  return value as Record<string, unknown>;
}

async function get(url: string, address: IssuerAddress): Promise<string> {
  const { origin, pathname } = new URL(url);
  const { status, text } = await fetchLimited(url, {
    headers: { Accept: 'application/json' },
    timeout: TIMEOUT_MS,
    maxBody: MAX_DOCUMENT,
    ca: authoritiesOf(address),
    readsBody: (status) => status === 200,
  }).catch((cause: ConnectionFailed) => {
    throw new Error(`${origin}${pathname}: ${cause.reason}`);
  });
  if (status !== 200) throw new Error(`${origin}${pathname} responded with ${status}`);
  return text;
}
