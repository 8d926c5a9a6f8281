import { createHash } from 'node:crypto';
import { stringify } from 'yaml';
import { tokenCreatedEvent } from '../accounts/audit-events.js';
import { changeToken } from '../accounts/token-changes.js';
import { TokenRotations } from '../accounts/token-rotations.js';
import { Tokens } from '../accounts/tokens.js';
import { loadConfig, type LoadedConfig } from '../config/load.js';
import { declaredTokenSchema } from '../config/schema/directory-file.js';
import { duration, positiveDuration } from '../config/schema/units.js';
import type { AuditEvent } from '../domain/audit.js';
import { newAccessToken, newId } from '../domain/secret.js';
import { formatTime } from '../util/time.js';
import { isExpired } from '../domain/token.js';
import type { User } from '../domain/user.js';
import { createdTokenObject, tokenObject } from '../endpoints/token-object.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import type { DirectoryStore } from '../store/core/directory.js';
import type { TokenWithUse } from '../store/core/token-records.js';
import type { ReportOptions } from './terminal/options.js';
import {
  CommandFailed,
  report,
  reportParts,
  reportRecord,
  withProgress,
  WrongUsage,
} from './terminal/output.js';
import { findUser, recordChange, recordOperation, unlessRefused, withStore } from './with-store.js';

interface CreateOptions extends ReportOptions {
  readonly user: string;
  readonly name?: string;
  readonly scope?: string;
  readonly services?: string[];
  readonly expiresAt?: string;
  readonly expiresIn?: string;
  readonly rate?: string;
  readonly address?: readonly string[];
}

function tokensOf({ config }: LoadedConfig, { store }: OpenedStore): Tokens {
  const scopes = Object.keys(config.policy.scopes);
  return new Tokens(store, { pending: () => undefined }, config.tokens, scopes);
}

/** How many tokens are sorted and printed at once. */
const PART = 1_000;

const COLUMNS = [
  'id', 'name', 'login', 'scope', 'services', 'created_at', 'last_used_at', 'expires_at', 'suspended',
]; // prettier-ignore

interface ListOptions extends ReportOptions {
  readonly user?: string;
  readonly limit?: number;
}

interface Owned {
  readonly found: TokenWithUse;
  readonly owner: User;
}

export async function list(options: ListOptions): Promise<void> {
  await withStore(loadConfig(options.config), async ({ store }) => {
    await reportParts(options, partsOf(withProgress(listed(), 'read')), COLUMNS, 'no tokens');

    async function* listed() {
      let left = options.limit ?? Infinity;
      for await (const owner of ownersOf(store.directory, options.user))
        for await (const page of store.tokens.pagesOfUser(owner.id))
          for (const found of page) {
            if (left === 0) return;
            left -= 1;
            yield { found, owner };
          }
    }
  });
}

async function* partsOf(tokens: AsyncIterable<Owned>): AsyncGenerator<object[]> {
  let part: Owned[] = [];
  for await (const each of tokens) {
    part.push(each);
    if (part.length < PART) continue;
    yield objectsOf(part);
    part = [];
  }
  if (part.length > 0) yield objectsOf(part);
}

function objectsOf(part: readonly Owned[]): object[] {
  return part
    .toSorted((a, b) => a.found.token.createdAt - b.found.token.createdAt)
    .map(({ found, owner }) => ({ ...tokenObject(found, owner.customerId), login: owner.login }));
}

async function* ownersOf(directory: DirectoryStore, user: string | undefined): AsyncGenerator<User> {
  if (user !== undefined) yield await findUser(directory, user);
  else
    for (const { id } of await directory.listCustomers())
      for await (const page of directory.pagesOfUsers(id)) yield* page;
}

export async function show(id: string, options: ReportOptions): Promise<void> {
  await withStore(loadConfig(options.config), async ({ store }) => {
    const found = await store.tokens.get(id);
    if (found === undefined) throw noToken(id);
    const { userId, kind, declared, rotated } = found.token;
    const owner = await store.directory.getUser(userId);
    reportRecord(options, {
      ...tokenObject(found, owner?.customerId ?? ''),
      login: owner?.login,
      kind,
      declared: declared === true,
      replaced_by: rotated?.to,
    });
  });
}

function noToken(id: string): CommandFailed {
  return new CommandFailed(`there is no token ${id} (latchkey token list shows them)`);
}

export async function create(options: CreateOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  await withStore(loaded, async (opened) => {
    const user = await findUser(opened.store.directory, options.user);
    checkOwner(user);
    const request = {
      name: options.name,
      scope: options.scope,
      services: options.services ?? [],
      expiresAt: options.expiresIn === undefined ? options.expiresAt : timeIn('create', options.expiresIn),
      restrictions: { rate: options.rate, addresses: options.address && [...options.address] },
    };
    const tokens = tokensOf(loaded, opened);
    const { token, secret } = await unlessRefused(opened, LISTED, async () => {
      const created = await tokens.create(user, request, Date.now());
      if (created !== 'owner_changed') return created;
      throw new CommandFailed(`${user.login} was changed in the meantime; try again`);
    });
    recordOperation(opened, [tokenCreatedEvent(token, user.customerId)], lostSecret(token.id));
    if (!options.json) process.stderr.write(`token ${token.id} of ${user.login}; its secret is shown only once:\n`);
    report(options, createdTokenObject(token, user.customerId, secret), secret, lostSecret(token.id));
  });
} // prettier-ignore

/** Refuses an owner whose new token would not be accepted, as `POST /tokens` does. */
function checkOwner({ locked, deletionPending, login }: User): void {
  if (deletionPending)
    throw new CommandFailed(
      `${login} is to be deleted once the active tokens end; declare the user in the directory file again first`,
    );
  if (locked) throw new CommandFailed(`${login} is locked; run "latchkey user unlock ${login}" first`);
}

const LISTED = '"latchkey token list" shows the token if it was created';

function lostSecret(id: string): string {
  return `token ${id} was created, but its secret is lost; revoke it with "latchkey token revoke ${id}"`;
}

function timeIn(command: string, text: string): string {
  const read = positiveDuration.safeParse(text);
  if (!read.success)
    throw new WrongUsage(`token ${command}: --expires-in: expected a duration like 12h or 90d`);
  const at = Date.now() + read.data;
  return new Date(at).toISOString();
}

export async function suspend(id: string, options: ReportOptions): Promise<void> {
  return setSuspended(id, true, options);
}

export async function resume(id: string, options: ReportOptions): Promise<void> {
  return setSuspended(id, false, options);
}

async function setSuspended(id: string, suspended: boolean, options: ReportOptions): Promise<void> {
  await withStore(loadConfig(options.config), async (opened) => {
    const { store } = opened;
    const auditEvents: AuditEvent[] = [];
    const { token, further } = await recordChange(opened, auditEvents, async () => {
      const changed = await changeToken(store.tokens, id, { suspended }, Date.now(), auditEvents);
      if (changed === undefined) throw noToken(id);
      if ('refusal' in changed) throw new CommandFailed('detail' in changed ? changed.detail : changed.refusal);
      return changed;
    });
    const owner = await store.directory.getUser(token.userId);
    const use = (await store.tokens.get(id))?.use ?? null;
    const shown = { ...tokenObject({ token, use }, owner?.customerId ?? ''), further_tokens: further };
    report(options, shown, `${id}: ${suspended ? 'suspended' : 'resumed'}${alsoReached(further)}`);
  });
} // prettier-ignore

export async function revoke(
  ids: readonly string[],
  options: ReportOptions & { user?: string },
): Promise<void> {
  if ((ids.length === 0) === (options.user === undefined)) {
    throw new WrongUsage('token revoke: pass token ids, or --user LOGIN for every token of a user');
  }
  const loaded = loadConfig(options.config);
  await withStore(loaded, async (opened) => {
    const { directory, tokens } = opened.store;
    const owner = options.user === undefined ? undefined : await findUser(directory, options.user);
    const owned = owner === undefined ? [] : await tokens.listOfUser(owner.id);
    const revoked = owner === undefined ? [...new Set(ids)] : owned.map(({ token }) => token.id);
    const auditEvents: AuditEvent[] = [];
    const { further } = await recordChange(opened, auditEvents, async () => {
      const result = await tokensOf(loaded, opened).revoke(revoked, auditEvents);
      if (result.missing.length > 0)
        throw new CommandFailed(`there is no token ${result.missing.join(', ')}; nothing was revoked`);
      return result;
    });
    const lines = revoked.map((id) => `${id}: revoked${revoked.length === 1 ? alsoReached(further) : ''}`);
    if (revoked.length > 1 && further > 0) lines.push(`also revoked: ${furtherTokens(further)}`);
    report(options, { revoked, further_tokens: further }, lines.join('\n') || 'no tokens');
  });
}

function alsoReached(further: number): string {
  return further === 0 ? '' : `, and with it ${furtherTokens(further)}`;
}

function furtherTokens(count: number): string {
  return `${count} ${count === 1 ? 'token' : 'tokens'} that came from rotations`;
}

interface RotateOptions extends ReportOptions {
  readonly overlap?: string;
}

export async function rotate(id: string, options: RotateOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  const overlap = readOverlap(options.overlap);
  await withStore(loaded, async (opened) => {
    const rotations = new TokenRotations(opened.store, loaded.config.tokens);
    const operator = { customerId: null, notAfter: null, tokenId: null, refuse: () => undefined };
    const { rotation, secret, customerId, auditEvents } = await unlessRefused(opened, LISTED, async () =>
      rotations.rotate(id, { overlap }, operator, Date.now()),
    );
    const { old, replacement } = rotation;
    recordOperation(opened, auditEvents, lostSecret(replacement.id));
    if (!options.json)
      process.stderr.write(
        `token ${replacement.id} replaces ${old.id}, which expires at ${formatTime(old.expiresAt ?? 0)}; the new secret is shown only once:\n`,
      );
    const object = createdTokenObject(replacement, customerId, secret);
    report(options, object, secret, lostSecret(replacement.id));
  });
}

/** Converts a duration to seconds, as the API expects them. */
function readOverlap(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const read = duration.safeParse(text);
  if (!read.success) throw new WrongUsage(`token rotate: --overlap: ${read.error.issues[0]?.message ?? ''}`);
  return String(Math.ceil(read.data / 1000));
}

type GenerateOptions = Omit<CreateOptions, 'config' | 'login' | 'id'>;

const OPTIONS: Readonly<Record<string, string>> = {
  user_id: '--user',
  name: '--name',
  scope: '--scope',
  services: '--services',
  expires_at: '--expires-at',
  rate: '--rate',
  addresses: '--address',
};

export function generate(options: GenerateOptions): void {
  const secret = newAccessToken();
  const entry = {
    id: newId(),
    user_id: options.user,
    name: options.name,
    secret_sha256: createHash('sha256').update(secret).digest('hex'),
    scope: (options.scope ?? 'global').split(' ').filter((each) => each !== ''),
    services: options.services,
    expires_at: options.expiresIn === undefined ? options.expiresAt : timeIn('generate', options.expiresIn),
    rate: options.rate,
    addresses: options.address,
  };
  const read = declaredTokenSchema.safeParse(entry);
  if (!read.success) {
    const [{ path, message } = { path: [], message: 'not valid' }] = read.error.issues;
    throw new WrongUsage(`token generate: ${OPTIONS[String(path[0])] ?? path.join('.')}: ${message}`);
  }
  if (isExpired({ expiresAt: read.data.expires_at ?? null }, Date.now()))
    throw new WrongUsage('token generate: --expires-at: the time has passed; choose a later one');
  if (!options.json)
    process.stderr.write(
      'the secret is shown only once; give it to the client, and add this entry to tokens in directory.yaml:\n',
    );
  const text = `${secret}\n\n${stringify({ tokens: [entry] }).trimEnd()}`;
  report(options, { access_token: secret, entry }, text);
}
