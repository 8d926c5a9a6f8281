import type { Refusal } from '../domain/refusal.js';
import type { AcceptedSchemes } from './authorization.js';
import { firstField } from './fields.js';
import type { RequestHead } from './head.js';

/** The variable parts of challenges. */
export interface ChallengeSettings extends AcceptedSchemes {
  /** Without characters that a quoted string would have to escape. */
  readonly realm: string;
  /** The paths whose challenges name protected resource metadata (RFC 9728 5.1), and its URL. */
  readonly resource: { readonly path: string; readonly metadata: string } | null;
}

/**
 * Returns the `WWW-Authenticate` field of a 401 (RFC 9110 11.6.1): a name and a value, or nothing if
 * no scheme is offered. It is one field, because some proxies drop a second one.
 *
 * @param head null when it was not read
 */
export type Challenge = (head: RequestHead | null, refusal: Refusal) => readonly string[];

/**
 * Creates the function that states the accepted schemes.
 *
 * Many programs only look at the first: `Basic` (containers/image, Mercurial), or on the paths of
 * the resource `Bearer` with its metadata (the MCP SDK).
 */
export function createChallenge({ basic, bearer, jwt, realm, resource }: ChallengeSettings): Challenge {
  const ofBasic = `Basic realm="${realm}"`;
  const ofBearer = `Bearer realm="${realm}"`;
  const takesBearer = bearer || jwt;
  return (head, { refusal }) => {
    const offered = basic && (head === null || !isScript(head.fields)) ? [ofBasic] : [];
    // A failed login says nothing about the token of its request.
    const isInvalid = head !== null && head.scheme === 'bearer' && refusal !== 'grant';
    const error = isInvalid ? ', error="invalid_token"' : '';
    if (takesBearer && resource !== null && head !== null && isWithin(head.path, resource.path))
      offered.unshift(`${ofBearer}, resource_metadata="${resource.metadata}"${error}`);
    else if (takesBearer) offered.push(`${ofBearer}${error}`);
    return offered.length === 0 ? [] : ['WWW-Authenticate', offered.join(', ')];
  };
}

/** Whether a browser sent a request. For `Basic`, it would ask the user for a password. */
function isScript(fields: readonly string[]): boolean {
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    if (name.length > FETCH_METADATA.length && name.toLowerCase().startsWith(FETCH_METADATA)) return true;
  }
  // Over plain HTTP, browsers send no fetch metadata.
  return firstField(fields, 'x-requested-with')?.toLowerCase() === 'xmlhttprequest';
}

const FETCH_METADATA = 'sec-fetch-';

/** Whether a path is that of a resource or below it. */
function isWithin(path: string, resource: string): boolean {
  if (!path.startsWith(resource)) return false;
  return path.length === resource.length || resource.endsWith('/') || path[resource.length] === '/';
}
