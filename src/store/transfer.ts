import type { Session } from '../domain/session.js';
import type { SigningKeys } from '../domain/signing-key.js';
import type { Token, TokenUse } from '../domain/token.js';
import type { Customer, Service, User } from '../domain/user.js';
import type { Store } from './store.js';

/** One record of a store, on its way to another one or to a file. */
export type StoreRecord =
  | { readonly kind: 'customer'; readonly value: Customer }
  | { readonly kind: 'service'; readonly value: Service }
  | { readonly kind: 'user'; readonly value: User; readonly otpStep: number }
  | { readonly kind: 'token'; readonly value: Token; readonly use: TokenUse | null }
  | { readonly kind: 'session'; readonly value: Session }
  | { readonly kind: 'revoked'; readonly value: string }
  | { readonly kind: 'signing_keys'; readonly value: SigningKeys };

/** Records that are written together. */
const BATCH = 1_000;

/**
 * Every record of a store, owners before what they own. Counts of failed logins and sudos are left behind: they are
 * over after minutes.
 */
export async function* recordsOf(store: Store): AsyncGenerator<StoreRecord> {
  for (const digest of await store.listRevokedDigests()) yield { kind: 'revoked', value: digest };
  const signingKeys = await store.getSigningKeys();
  if (signingKeys !== undefined) yield { kind: 'signing_keys', value: signingKeys };
  for (const customer of await store.listCustomers()) {
    yield { kind: 'customer', value: customer };
    for (const value of await store.listServices(customer.id)) yield { kind: 'service', value };
    for (const user of await store.listUsers(customer.id)) {
      yield { kind: 'user', value: user, otpStep: await store.getOtpStep(user.id) };
      for (const { token, use } of await store.listTokensOfUser(user.id))
        yield { kind: 'token', value: token, use };
      for (const value of await store.listSessions(user.id)) yield { kind: 'session', value };
    }
  }
}

/** Writes records into a store, a batch at a time. What is there already stays or is written over by its like. */
export class RecordWriter {
  readonly #store: Store;
  #batch: StoreRecord[] = [];

  constructor(store: Store) {
    this.#store = store;
  }

  async write(record: StoreRecord): Promise<void> {
    this.#batch.push(record);
    if (this.#batch.length >= BATCH) await this.flush();
  }

  /** @throws Error when the store refuses a batch */
  async flush(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    const revoked = batch.filter((record) => record.kind === 'revoked').map(({ value }) => value);
    if (revoked.length > 0) await this.#store.addRevokedDigests(revoked);
    const users = batch.filter((record) => record.kind === 'user');
    const tokens = batch.filter((record) => record.kind === 'token');
    const refused = await this.#store.change(
      {
        customers: batch.filter((record) => record.kind === 'customer').map(({ value }) => value),
        services: batch.filter((record) => record.kind === 'service').map(({ value }) => value),
        users: users.map(({ value }) => value),
        tokens: tokens.map(({ value }) => value),
      },
      Date.now(),
    );
    if (refused !== undefined) throw new Error(`the store refused a record (${refused.reason})`);
    for (const { value, otpStep } of users)
      if (otpStep >= 0) await this.#store.takeOtpStep(value.id, otpStep);
    await this.#store.recordUses({
      tokens: new Map(tokens.flatMap(({ value, use }) => (use === null ? [] : [[value.id, use]]))),
      sessions: new Map(),
    });
    for (const record of batch) {
      if (record.kind === 'session') await this.#store.createSession(record.value);
      else if (record.kind === 'signing_keys') await this.#replaceSigningKeys(record.value);
    }
  }

  async #replaceSigningKeys({ keys }: SigningKeys): Promise<void> {
    const known = await this.#store.getSigningKeys();
    if (!(await this.#store.replaceSigningKeys({ revision: (known?.revision ?? 0) + 1, keys })))
      throw new Error('the signing keys were changed meanwhile; run it again');
  }
}

/** A name of a record that is the same in every store. */
export function recordKey({ kind, value }: StoreRecord): string {
  if (kind === 'revoked') return `revoked ${value}`;
  if (kind === 'signing_keys') return 'signing_keys';
  return `${kind} ${value.id}`;
}
