import type { LoadedConfig } from '../config/load.js';
import { jwtSubject, rulesForSub } from '../accounts/jwt/subjects.js';
import type { EpochMs } from '../domain/time.js';
import type { User } from '../domain/user.js';
import type { SimulatedCaller } from '../pipeline/simulate.js';
import type { Store } from '../store/store.js';
import type { LoggedCaller, LoggedRequest } from './access-log.js';
import { syntheticSession } from './synthetic-subject.js';

/** The possible senders of a logged request, from the log and the store. */
export interface RebuiltCaller {
  /** Several when the log fits several subjects of an issuer; empty when the sender is unknown. */
  readonly as: readonly SimulatedCaller[];
  /** What has changed since the request, or is unknown. */
  readonly notes: readonly string[];
}

/** The sources that a caller is rebuilt from. */
export interface CallerSources {
  readonly entry: LoggedRequest;
  readonly loaded: LoadedConfig;
  /** null when the store cannot be read; the reason has been noted already. */
  readonly store: Store | null;
  /** Whether the configuration is the one that decided originally. */
  readonly isOriginalConfig: boolean;
  /** The expired token that the audit log names. */
  readonly expiredTokenId: string | null;
}

/**
 * Rebuilds the sender of a request. Data that neither the log nor the store holds is not guessed.
 */
export async function rebuildCaller(sources: CallerSources): Promise<RebuiltCaller> {
  const { entry, store, expiredTokenId } = sources;
  const { caller, outcome } = entry;
  if (caller === null) {
    if (outcome !== 'token_expired')
      return known(outcome === 'unauthenticated' ? { record: undefined } : 'anonymous');
    return expiredTokenId === null
      ? unknown('the log does not name the expired token; the entry token.expired of the audit log with this request_id does')
      : byToken(store, expiredTokenId, entry.time);
  } // prettier-ignore
  switch (caller.credential) {
    case 'jwt':
      return byJwt(sources, caller);
    case 'session': {
      const user = await store?.directory.getUser(caller.userId);
      if (user === undefined) return withoutRecord(store, `the user ${caller.userId}`);
      return known({ subject: syntheticSession(user) }, notesOf('user', caller.userId, user, entry.time));
    }
    default:
      return byToken(store, caller.tokenId, entry.time);
  }
}

async function byToken(store: Store | null, id: string, time: EpochMs | null): Promise<RebuiltCaller> {
  const token = (await store?.tokens.get(id))?.token;
  if (token === undefined) return withoutRecord(store, `the token ${id}`);
  const owner = await store?.directory.getUser(token.userId);
  if (owner === undefined) return withoutRecord(store, `the owner ${token.userId} of the token ${id}`);
  const notes = [...notesOf('token', id, token, time), ...notesOf('user', owner.login, owner, time)];
  return known({ record: { token, owner } }, notes);
}

function byJwt({ loaded, isOriginalConfig }: CallerSources, caller: LoggedCaller): RebuiltCaller {
  if (caller.credential !== 'jwt') return unknown('');
  const settings = loaded.config.jwt_issuers.find(({ name }) => name === caller.issuer);
  const rules = rulesForSub(settings?.subjects ?? [], caller.subject).filter(
    (rule) => !isOriginalConfig || rule.customer_id === caller.customerId,
  );
  if (rules.length === 0)
    return known({ record: undefined }, [
      `no subject of jwt_issuers matches ${caller.subject} of ${caller.issuer}`,
    ]);
  const never = { digest: '', createdAt: 0, expiresAt: 0 };
  return {
    as: rules.map((rule) => ({ subject: jwtSubject(caller.issuer, caller.subject, rule, never) })),
    notes:
      rules.length === 1
        ? []
        : [
            `${rules.length} subjects of the issuer ${caller.issuer} match what the log contains of the JWT: its claim sub`,
          ],
  };
}

function notesOf(
  what: string,
  name: string,
  { updatedAt }: Pick<User, 'updatedAt'>,
  time: EpochMs | null,
): string[] {
  if (time === null || updatedAt <= time) return [];
  const at = new Date(updatedAt).toISOString();
  return [`the ${what} ${name} was changed after the request, at ${at}: its current state is used`];
}

function withoutRecord(store: Store | null, what: string): RebuiltCaller {
  return store === null
    ? { as: [], notes: [] }
    : unknown(`${what} is no longer in the store; the log does not contain its permissions`);
}

function known(as: SimulatedCaller, notes: readonly string[] = []): RebuiltCaller {
  return { as: [as], notes };
}

function unknown(note: string): RebuiltCaller {
  return { as: [], notes: [note] };
}
