import { rulesForSub } from '../accounts/jwt/subjects.js';
import type { LoadedConfig } from '../config/load.js';
import type { Subject } from '../domain/credential.js';
import type { User } from '../domain/user.js';
import { syntheticSession, syntheticToken, syntheticUser } from '../gate/what-if.js';
import type { Store } from '../store/store.js';
import type { LoggedCaller } from './access-log.js';

/** The sender of a logged request, with the current role, scopes and services. */
export interface KnownCaller {
  readonly subject: Subject;
  readonly login: string | null;
  readonly tokenName: string | null;
}

/** The possible senders of a request, or why the sender's permissions are unknown. */
export type FoundCaller = readonly KnownCaller[] | { readonly unknown: string };

/**
 * Maximum number of cached callers; a full cache is cleared. A log has few callers compared to its
 * lines.
 */
const MAX_KNOWN = 100_000;

/** Looks up what the log does not hold about callers. */
export class Callers {
  readonly #store: Store | null;
  readonly #issuers: LoadedConfig['config']['jwt_issuers'];
  readonly #known = new Map<string, FoundCaller>();

  /** @param store null: only the subjects of JWTs can be found */
  constructor(store: Store | null, { config }: LoadedConfig) {
    this.#store = store;
    this.#issuers = config.jwt_issuers;
  }

  /** Returns the sender of a request, as if the credential were valid now. */
  async find(caller: LoggedCaller): Promise<FoundCaller> {
    const key = callerKey(caller);
    let found = this.#known.get(key);
    if (found === undefined) {
      found = await this.#lookUp(caller);
      if (this.#known.size >= MAX_KNOWN) this.#known.clear();
      this.#known.set(key, found);
    }
    return found;
  }

  async #lookUp(caller: LoggedCaller): Promise<FoundCaller> {
    if (caller.credential === 'jwt') return this.#ofIssuer(caller);
    if (this.#store === null)
      return { unknown: 'the role is not in the log, and there is no store to look it up in' };
    const user = await this.#store.directory.getUser(caller.userId);
    if (user === undefined) return { unknown: 'the user is no longer in the store' };
    const unlocked: User = { ...user, locked: false };
    if (caller.credential === 'session')
      return [{ subject: syntheticSession(unlocked), login: user.login, tokenName: null }];
    const found = await this.#store.tokens.get(caller.tokenId);
    if (found === undefined) return { unknown: 'the token is no longer in the store' };
    const { token } = found;
    if (token.userId !== user.id) return { unknown: 'the token now belongs to another user' };
    const subject = { credential: caller.credential, user: unlocked, token } as const;
    return [{ subject, login: user.login, tokenName: token.name }];
  }

  /** The log holds only the `sub` claim of a JWT, so every rule that matches it is possible. */
  #ofIssuer({ issuer, subject, customerId }: Extract<LoggedCaller, { credential: 'jwt' }>): FoundCaller {
    const rules = this.#issuers.find(({ name }) => name === issuer)?.subjects ?? [];
    const fitting = rulesForSub(rules, subject).filter((rule) => rule.customer_id === customerId);
    if (fitting.length === 0) return { unknown: UNKNOWN_CLAIMS };
    return fitting.map((rule) => {
      const user = syntheticUser(rule.role, customerId, `${issuer}/${subject}`);
      const holder = syntheticToken(user, rule.scope, rule.services ?? []);
      const found: Subject = { ...holder, credential: 'jwt', jwt: { issuer, subject } };
      return { subject: found, login: null, tokenName: null };
    });
  }
}

/** Why the permissions of a JWT are unknown. */
export const UNKNOWN_CLAIMS = 'the role or scope depends on claims of the JWT, which are not in the log';

/**
 * Returns the key that identifies a caller: a token, the user of a session, or the subject of a
 * JWT.
 */
export function callerKey(caller: LoggedCaller): string {
  switch (caller.credential) {
    case 'session':
      return JSON.stringify(['session', caller.userId]);
    case 'jwt':
      return JSON.stringify(['jwt', caller.issuer, caller.subject, caller.customerId]);
    default:
      return JSON.stringify([caller.credential, caller.tokenId, caller.userId]);
  }
}
