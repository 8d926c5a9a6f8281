import type { Refusal } from '../domain/refusal.js';
import type { AcceptedSchemes } from './authorization.js';
import { isByScript } from './fields.js';
import type { RequestHead } from './head.js';
import { type Reply, refusalReply, withHeaders } from './replies.js';

export interface ChallengeSettings extends AcceptedSchemes {
  /** Without characters that a quoted string would have to escape. */
  readonly realm: string;
  /** The paths whose challenges name protected resource metadata (RFC 9728 5.1), and its URL. */
  readonly resource: { readonly path: string; readonly metadata: string } | null;
}

/**
 * Adds one `WWW-Authenticate` to a 401 (RFC 9110 11.6.1): some proxies drop a second one.
 * @param head null when it was not read
 */
export type Challenge = (reply: Reply, head: RequestHead | null, refusal: Refusal) => Reply;

interface Offer {
  readonly fields: readonly string[];
  readonly reply: Reply;
}

const INVALID = refusalReply({ refusal: 'unauthenticated' });

/**
 * Many programs only look at the first scheme: `Basic` (containers/image, Mercurial), or on the paths of the
 * resource `Bearer` with its metadata (the MCP SDK).
 */
export function createChallenge({ basic, bearer, jwt, realm, resource }: ChallengeSettings): Challenge {
  const basics = basic ? [`Basic realm="${realm}"`] : [];
  const bearers = bearer || jwt ? [`Bearer realm="${realm}"`] : [];
  const metadata = resource === null ? '' : `, resource_metadata="${resource.metadata}"`;
  const offersWith = (error: string) => {
    const elsewhere = bearers.map((each) => each + error);
    const ofResource = bearers.map((each) => each + metadata + error);
    return {
      elsewhere: { browser: offerOf(elsewhere), other: offerOf([...basics, ...elsewhere]) },
      ofResource: { browser: offerOf(ofResource), other: offerOf([...ofResource, ...basics]) },
    };
  };
  const missing = offersWith('');
  const invalid = offersWith(', error="invalid_token"');

  function offerFor(head: RequestHead | null, { refusal }: Refusal): Offer {
    if (head === null) return missing.elsewhere.other;
    // A failed login says nothing about the token of its request.
    const offers = head.scheme === 'bearer' && refusal !== 'grant' ? invalid : missing;
    const isOfResource = resource !== null && isWithin(head.path, resource.path);
    const { browser, other } = isOfResource ? offers.ofResource : offers.elsewhere;
    return basic && isOfBrowser(head.fields) ? browser : other;
  }

  return (reply, head, refusal) => {
    const offer = offerFor(head, refusal);
    return reply === INVALID ? offer.reply : withHeaders(reply, offer.fields);
  };
}

function offerOf(schemes: readonly string[]): Offer {
  const fields = schemes.length === 0 ? [] : ['WWW-Authenticate', schemes.join(', ')];
  return { fields, reply: withHeaders(INVALID, fields) };
}

function isOfBrowser(fields: readonly string[]): boolean {
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    if (name[3] !== '-' || name.length <= FETCH_METADATA.length) continue;
    if (name.toLowerCase().startsWith(FETCH_METADATA)) return true;
  }
  // Over plain HTTP, browsers send no fetch metadata.
  return isByScript(fields);
}

const FETCH_METADATA = 'sec-fetch-';

function isWithin(path: string, resource: string): boolean {
  if (!path.startsWith(resource)) return false;
  return path.length === resource.length || resource.endsWith('/') || path[resource.length] === '/';
}
