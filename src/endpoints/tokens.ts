import type { Logins } from '../accounts/login.js';
import type { Tokens } from '../accounts/tokens.js';
import { segmentAt } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import type { Ownership } from '../gate/ownership.js';
import { type Call, type Handler, subjectOf } from './call.js';
import type { SudoUser } from './sudo.js';
import { createdTokenFact, revokedTokenFact } from './token-facts.js';
import { createdTokenObject, tokenObject } from './token-object.js';

/** Most tokens that one bulk revocation takes; the 64 KiB of a body hold no more. */
const MAX_BULK = 1_500;

/** The endpoints under /tokens and /customer/:id/tokens. */
export class TokenEndpoints {
  readonly #tokens: Tokens;
  readonly #logins: Logins;
  readonly #ownership: Ownership;
  readonly #sudoUser: SudoUser | null;

  /** @param sudoUser null when there is no `POST /sudo` */
  constructor(tokens: Tokens, logins: Logins, ownership: Ownership, sudoUser: SudoUser | null) {
    this.#tokens = tokens;
    this.#logins = logins;
    this.#ownership = ownership;
    this.#sudoUser = sudoUser;
  }

  /** POST /tokens. A credential counts only when no login name is sent: clients send theirs with everything. */
  create: Handler = async ({ head, body, now }) => {
    const { params } = body;
    const caller = params.all('username').length === 0 ? await this.#sudoUser?.(head, now) : undefined;
    const checked = await this.#logins.check(
      {
        login: params.one('username'),
        password: params.one('password'),
        otp: head.otp,
        address: head.client.address,
        caller,
      },
      400,
    );
    if ('refusal' in checked) return checked;
    const scopes = params.list('scope');
    const created = await this.#tokens.create(
      checked.user,
      {
        name: params.all('name').at(-1),
        scope: scopes.length === 0 ? undefined : scopes.join(' '),
        services: params.list('services', 'service_id'),
        expiresAt: params.all('expires_at').at(-1),
      },
      now,
    );
    if ('refusal' in created) return created;
    const { token, secret } = created;
    return {
      status: 200,
      json: createdTokenObject(token, secret),
      facts: [...checked.facts, createdTokenFact(token)],
    };
  };

  /** GET /tokens */
  listOwn: Handler = async ({ subject }) => {
    const tokens = await this.#tokens.ofUser(userOf(subject).id);
    return { status: 200, json: tokens.map(tokenObject) };
  };

  /** GET /customer/:id/tokens; the gate let only the caller's own customer through. */
  listCustomer: Handler = async ({ subject }) => {
    const tokens = await this.#tokens.ofCustomer(userOf(subject).customerId);
    return { status: 200, json: tokens.map(tokenObject) };
  };

  /** GET /tokens/self */
  showSelf: Handler = async ({ subject }) => this.#show(tokenOf(subject).id, subject);

  /** DELETE /tokens/self */
  revokeSelf: Handler = async ({ subject }) => this.#revoke([tokenOf(subject).id]);

  /** GET /tokens/:id; the gate checked whose it is. */
  show: Handler = async ({ subject, path }) => this.#show(segmentAt(path, 1) ?? '', subject);

  /** DELETE /tokens/:id; the gate checked whose it is. */
  revoke: Handler = async ({ path }) => this.#revoke([segmentAt(path, 1) ?? '']);

  /** DELETE /tokens: several at once, all or none. The ids are in the body, so they are judged here. */
  revokeBulk: Handler = async ({ subject, body }) => {
    const ids = readBulk(body.json);
    if ('refusal' in ids) return ids;
    for (const id of ids.list) {
      const refusal = await this.#ownership.refuseToken(id, subjectOf(subject), 'customer_token:write');
      if (refusal !== undefined) return refusal;
    }
    return this.#revoke(ids.list);
  };

  async #revoke(ids: readonly string[]) {
    const [missing] = await this.#tokens.revoke(ids);
    return missing === undefined ? { status: 204, facts: ids.map(revokedTokenFact) } : notFound(missing);
  }

  async #show(id: string, subject: Call['subject']) {
    const found = await this.#tokens.get(id, userOf(subject).customerId);
    return found === undefined ? notFound(id) : { status: 200, json: tokenObject(found) };
  }
}

/** Reads `{"data":[{"type":"token","id":"..."}]}`. */
function readBulk(json: unknown): { list: string[] } | Refusal {
  const data = (json as { data?: unknown } | null | undefined)?.data;
  const list = Array.isArray(data) ? data.map(idOf) : [];
  if (list.length === 0 || list.length > MAX_BULK || list.includes(undefined)) {
    return { refusal: 'malformed', detail: 'expected a body like {"data":[{"type":"token","id":"..."}]}' };
  }
  return { list: [...new Set(list as string[])] };
}

function idOf(item: unknown): string | undefined {
  if (typeof item !== 'object' || item === null) return undefined;
  const { type, id } = item as { type?: unknown; id?: unknown };
  return (type === undefined || type === 'token') && typeof id === 'string' ? id : undefined;
}

function userOf(subject: Call['subject']) {
  return subjectOf(subject).user;
}

function tokenOf(subject: Call['subject']) {
  const known = subjectOf(subject);
  if (known.credential === 'session')
    throw new Error('the gate let a session to an endpoint that takes a token');
  return known.token;
}

function notFound(id: string): Refusal {
  return { refusal: 'not_found', detail: `Cannot find token '${id}'` };
}
