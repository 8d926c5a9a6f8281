// src/accounts/jwt: JWTs of other issuers: their keys, and the users that they stand for.
// May import what accounts may.
// `JwtIssuers.verify` returns the subject of one.

import { LRUCache } from 'lru-cache';
import type { JwtSubject } from '../../domain/credential.js';
import { Unavailable } from '../../domain/refusal.js';
import { digestOf } from '../../domain/secret.js';
import { AUTHORIZATION } from '../../http/authorization.js';
import type { EpochMs } from '../../util/time.js';
import { type Claims, type IssuerSettings, placeOf, subjectOf, unverifiedClaims } from './subjects.js';
import type { KeySet, Verifier } from './verifier.js';
import { upTo } from '../../util/collections.js';

export type VerificationOutcome = 'valid' | 'invalid' | 'expired' | 'no_subject' | 'unavailable';

export interface JwtEvents {
  readonly verified: (issuer: string, outcome: VerificationOutcome) => void;
  readonly fetched: (issuer: string, error: unknown) => void;
}

const REMEMBERED_MS = 60_000;
const MAX_REMEMBERED = 10_000;

interface Issuer {
  readonly settings: IssuerSettings;
  /** Created on first use: it loads packages. */
  verifier: Promise<Verifier> | undefined;
}

/**
 * Accepts JWTs of other issuers. The issuer is looked up by `iss` before anything is verified or fetched.
 * Keys and algorithms come only from the configuration, never from the JWT's header.
 */
export class JwtIssuers {
  readonly #issuers: ReadonlyMap<string, Issuer>;
  readonly #events: JwtEvents;
  readonly #keySets: Pick<KeySets, 'of'>;
  readonly #forwarded: readonly string[];
  readonly #known = new LRUCache<string, { subject: JwtSubject; from: EpochMs; until: EpochMs }>(
    upTo(MAX_REMEMBERED),
  );
  readonly #pending = new Map<string, Promise<JwtSubject | undefined>>();

  /** @param forwarded names of the claims that upstreams receive */
  constructor(
    issuers: readonly IssuerSettings[],
    events: JwtEvents,
    keySets: Pick<KeySets, 'of'> = new KeySets(),
    forwarded: readonly string[] = [],
  ) {
    this.#forwarded = forwarded;
    this.#events = events;
    this.#keySets = keySets;
    this.#issuers = new Map(issuers.map((settings) => [settings.issuer, { settings, verifier: undefined }]));
  }

  isOwn(jwt: string): boolean {
    return this.#issuerOf(unverifiedClaims(jwt)) !== undefined;
  }

  /** @param place as in `RequestHead.jwtPlace` @throws Unavailable if the issuer's keys cannot be fetched */
  verify(
    jwt: string,
    now: EpochMs,
    place = AUTHORIZATION,
  ): JwtSubject | undefined | Promise<JwtSubject | undefined> {
    const digest = digestOf(jwt);
    const key = place + digest;
    const known = this.#known.get(key);
    // Otherwise, setting the clock back would extend the lifetime of the entry.
    if (known !== undefined && now >= known.from && now < known.until) return known.subject;
    const pending = this.#pending.get(key);
    if (pending !== undefined) return pending;
    const issuer = this.#issuerOf(unverifiedClaims(jwt));
    if (issuer === undefined || placeOf(issuer.settings) !== place) return undefined;
    const started = this.#check(issuer, jwt, digest, key, now).finally(() => this.#pending.delete(key));
    this.#pending.set(key, started);
    return started;
  }

  #issuerOf(claims: Claims | undefined): Issuer | undefined {
    return typeof claims?.['iss'] === 'string' ? this.#issuers.get(claims['iss']) : undefined;
  }

  async #check(
    issuer: Issuer,
    jwt: string,
    digest: string,
    key: string,
    now: EpochMs,
  ): Promise<JwtSubject | undefined> {
    const { name } = issuer.settings;
    issuer.verifier ??= this.#open(issuer.settings);
    const claimsOf = await issuer.verifier;
    let claims: Claims | 'invalid' | 'expired';
    try {
      claims = await claimsOf(jwt, now);
    } catch (error) {
      if (error instanceof Unavailable) this.#events.verified(name, 'unavailable');
      throw error;
    }
    if (claims === 'invalid' || claims === 'expired') {
      this.#events.verified(name, claims);
      return undefined;
    }
    const subject = subjectOf(issuer.settings, claims, digest, now, this.#forwarded);
    this.#events.verified(name, subject === undefined ? 'no_subject' : 'valid');
    if (subject === undefined) return undefined;
    const until = Math.min(subject.token.expiresAt ?? now, now + REMEMBERED_MS);
    this.#known.set(key, { subject, from: now, until });
    return subject;
  }

  async #open(settings: IssuerSettings): Promise<Verifier> {
    const { createVerifier, openKeySet } = await import('./verifier.js');
    const fetched = (error: unknown): void => this.#events.fetched(settings.name, error);
    return createVerifier(
      settings,
      this.#keySets.of(settings, () => openKeySet(settings, fetched)),
    );
  }
}

type KeySettings = Pick<IssuerSettings, 'name' | 'issuer' | 'discovery' | 'tls' | 'jwks'>;

/** Those with unchanged settings survive a reload: the issuer may be unavailable at that moment. */
export class KeySets {
  readonly #sets = new Map<string, KeySet>();

  /** A file is always read again: it may be what changed. */
  of(settings: KeySettings, open: () => KeySet): KeySet {
    if (settings.jwks !== null && 'file' in settings.jwks) return open();
    const key = keyOf(settings);
    const known = this.#sets.get(key) ?? open();
    this.#sets.set(key, known);
    return known;
  }

  reload(issuers: readonly KeySettings[]): void {
    const kept = new Set(issuers.map(keyOf));
    for (const [key, set] of this.#sets) {
      if (kept.has(key)) set.expire();
      else this.#sets.delete(key);
    }
  }
}

function keyOf({ name, issuer, discovery, tls, jwks }: KeySettings): string {
  return JSON.stringify([name, issuer, discovery, tls, jwks]);
}
