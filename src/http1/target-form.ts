import { isHost } from '../domain/host.js';
import { SLASH } from './bytes.js';
import type { Fault } from './faults.js';

const SCHEMES = ['http://', 'https://'];

/**
 * Validates the form of a target, which depends on the method (RFC 9112 3.2).
 *
 * An absolute target must name the same host as Host, because recipients
 * disagree on which one counts.
 */
export function targetFault(method: string, target: string, host: string | undefined): Fault | undefined {
  if (method === 'CONNECT') return isAuthority(target) ? undefined : 'target_form';
  if (target.charCodeAt(0) === SLASH) return undefined;
  if (target === '*') return method === 'OPTIONS' ? undefined : 'target_form';
  const lower = target.toLowerCase();
  const scheme = SCHEMES.find((each) => lower.startsWith(each));
  if (scheme === undefined) return 'target_form';
  const authority = lower.slice(scheme.length, endOfAuthority(lower, scheme.length));
  if (!isHost(authority)) return 'target_form';
  return host === undefined || host.toLowerCase() === authority ? undefined : 'host_mismatch';
}

/** Returns whether a target is a host with a port, as CONNECT requires (RFC 9112 3.2.3). */
function isAuthority(target: string): boolean {
  return isHost(target) && /:\d+$/.test(target);
}

function endOfAuthority(target: string, from: number): number {
  const slash = target.indexOf('/', from);
  const query = target.indexOf('?', from);
  if (slash < 0) return query < 0 ? target.length : query;
  return query < 0 ? slash : Math.min(slash, query);
}
