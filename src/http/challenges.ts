import type { Refusal } from '../domain/refusal.js';
import type { AcceptedSchemes } from './authorization.js';
import { isByScript } from './fields.js';
import type { RequestHead } from './head.js';
import { type Reply, refusalReply, withHeaders } from './replies.js';

/** The variable parts of challenges. */
export interface ChallengeSettings extends AcceptedSchemes {
  /** Without characters that a quoted string would have to escape. */
  readonly realm: string;
  /** The paths whose challenges name protected resource metadata (RFC 9728 5.1), and its URL. */
  readonly resource: { readonly path: string; readonly metadata: string } | null;
}

/**
 * Returns a 401 with `WWW-Authenticate` (RFC 9110 11.6.1), unless no scheme is offered. It is one
 * field, because some proxies drop a second one.
 *
 * @param head null when it was not read
 */
export type Challenge = (reply: Reply, head: RequestHead | null, refusal: Refusal) => Reply;

/** One of the few possible fields, flat, and the common 401 with it. */
interface Offer {
  readonly fields: readonly string[];
  readonly reply: Reply;
}

const INVALID = refusalReply({ refusal: 'unauthenticated' });

/**
 * Creates the function that states the accepted schemes.
 *
 * Many programs only look at the first: `Basic` (containers/image, Mercurial), or on the paths of
 * the resource `Bearer` with its metadata (the MCP SDK).
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

/** Whether a browser sent a request. For `Basic`, it would ask the user for a password. */
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

/** Whether a path is that of a resource or below it. */
function isWithin(path: string, resource: string): boolean {
  if (!path.startsWith(resource)) return false;
  return path.length === resource.length || resource.endsWith('/') || path[resource.length] === '/';
}
