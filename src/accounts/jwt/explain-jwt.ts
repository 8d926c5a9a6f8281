import type { JwtSubject } from '../../domain/credential.js';
import { digestOf } from '../../domain/secret.js';
import type { EpochMs } from '../../util/time.js';
import { type Claims, formFault, unverifiedAlgorithm, unverifiedClaims } from './decode.js';
import {
  acceptedFrom,
  claimFault,
  type ComparedClaim,
  compareClaims,
  type IssuerSettings,
  refusedFrom,
  subjectOf,
} from './subjects.js';

/** The signature is not checked, because that would require a fetch. */
export interface ExplainedJwt {
  /** Null if none matches the `iss` claim. */
  readonly issuer: string | null;
  /** The first subject whose claims all match, such as `jwt_issuers.0.subjects.1`. */
  readonly fits: string | null;
  readonly subjects: readonly { readonly place: string; readonly claims: readonly ComparedClaim[] }[];
  /** Null if only the signature is left to check. */
  readonly fault: string | null;
}

export function explainJwt(
  issuers: readonly IssuerSettings[],
  jwt: string,
  now: EpochMs,
  forwarded: readonly string[] = [],
): { readonly explained: ExplainedJwt; readonly subject: JwtSubject | undefined } {
  const claims = unverifiedClaims(jwt);
  const at = issuers.findIndex(({ issuer }) => issuer === claims?.['iss']);
  const settings = issuers[at];
  if (claims === undefined || settings === undefined) {
    const fault = claims === undefined ? 'it is not a JWT of up to 8 KiB' : 'no issuer in jwt_issuers has its claim iss';
    return { explained: { issuer: null, fits: null, subjects: [], fault }, subject: undefined };
  }
  const subjects = settings.subjects.map((rule, i) => ({
    place: `jwt_issuers.${at}.subjects.${i}`,
    claims: compareClaims(rule, claims),
  }));
  const fits = subjects.find((each) => each.claims.every((claim) => claim.fits))?.place ?? null;
  const subject = subjectOf(settings, claims, digestOf(jwt), now, forwarded);
  const fault =
    formFault(jwt) ??
    faultOf(settings, claims, jwt, now) ??
    (fits === null ? 'no subject matches its claims' : subject === undefined ? 'its claim sub cannot name a user' : null);
  return {
    explained: { issuer: settings.name, fits, subjects, fault },
    subject: fault === null ? subject : undefined,
  };
} // prettier-ignore

function faultOf(settings: IssuerSettings, claims: Claims, jwt: string, now: EpochMs): string | undefined {
  const { algorithms, clock_skew: skew } = settings;
  const { exp, nbf, iat } = claims;
  const fault = claimFault(settings, claims);
  if (fault !== undefined) return fault;
  if (!algorithms.some((each) => each === unverifiedAlgorithm(jwt))) return 'its algorithm is not configured';
  if (typeof exp !== 'number') return 'it has no claim exp';
  if (now >= refusedFrom(exp, skew)) return 'it has expired';
  if (nbf !== undefined && (typeof nbf !== 'number' || now < acceptedFrom(nbf, skew)))
    return 'it is not valid yet';
  if (iat !== undefined && typeof iat !== 'number') return 'its claim iat is not a number';
  return undefined;
}
