import type { Logins } from '../accounts/login.js';
import type { Tokens } from '../accounts/tokens.js';
import type { Subject } from '../domain/credential.js';
import { segmentAt } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import type { Policy } from '../policy/decide.js';
import type { Call, Handler } from './call.js';
import { createdTokenObject, tokenObject } from './token-object.js';

/** Most tokens that one bulk revocation takes; the 64 KiB of a body hold no more. */
const MAX_BULK = 1_500;

/** The endpoints under /tokens and /customer/:id/tokens. */
export class TokenEndpoints {
  readonly #tokens: Tokens;
  readonly #logins: Logins;
  readonly #policy: Policy;

  constructor(tokens: Tokens, logins: Logins, policy: Policy) {
    this.#tokens = tokens;
    this.#logins = logins;
    this.#policy = policy;
  }

  /** POST /tokens */
  create: Handler = async ({ head, body, now }) => {
    const { params } = body;
    const checked = await this.#logins.check(
      {
        login: params.one('username'),
        password: params.one('password'),
        otp: head.otp,
        address: head.client.address,
      },
      400,
    );
    if ('refusal' in checked) return checked;
    const created = await this.#tokens.create(
      checked.user,
      {
        name: params.all('name').at(-1),
        scope: params.all('scope').at(-1),
        services: params.all('services[]', 'services', 'service_id'),
        expiresAt: params.all('expires_at').at(-1),
      },
      now,
    );
    if ('refusal' in created) return created;
    return { status: 200, json: createdTokenObject(created.token, created.secret) };
  };

  /** GET /tokens */
  listOwn: Handler = async ({ subject }) => {
    const tokens = await this.#tokens.ofUser(userOf(subject).id);
    return { status: 200, json: tokens.map(tokenObject) };
  };

  /** GET /customer/:id/tokens */
  listCustomer: Handler = async ({ subject, path }) => {
    const { customerId } = userOf(subject);
    if (segmentAt(path, 1) !== customerId) {
      return { refusal: 'other_customer', detail: 'The tokens of another customer can not be listed' };
    }
    const refusal = this.#refuseOthers(subject, 'customer_token:read');
    if (refusal !== undefined) return refusal;
    const tokens = await this.#tokens.ofCustomer(customerId);
    return { status: 200, json: tokens.map(tokenObject) };
  };

  /** GET /tokens/self */
  showSelf: Handler = async ({ subject }) => this.#show(tokenOf(subject).id, subject);

  /** DELETE /tokens/self */
  revokeSelf: Handler = async ({ subject }) => this.#revoke([tokenOf(subject).id]);

  /** GET /tokens/:id */
  show: Handler = async ({ subject, path }) => {
    const id = segmentAt(path, 1) ?? '';
    const refusal = await this.#refuseToken(id, subject, 'customer_token:read');
    return refusal ?? this.#show(id, subject);
  };

  /** DELETE /tokens/:id */
  revoke: Handler = async ({ subject, path }) => this.#revokeAll([segmentAt(path, 1) ?? ''], subject);

  /** DELETE /tokens: several at once, all or none. */
  revokeBulk: Handler = async ({ subject, body }) => {
    const ids = readBulk(body.json);
    return 'refusal' in ids ? ids : this.#revokeAll(ids.list, subject);
  };

  async #revokeAll(ids: readonly string[], subject: Call['subject']) {
    for (const id of ids) {
      const refusal = await this.#refuseToken(id, subject, 'customer_token:write');
      if (refusal !== undefined) return refusal;
    }
    return this.#revoke(ids);
  }

  async #revoke(ids: readonly string[]) {
    const [missing] = await this.#tokens.revoke(ids);
    return missing === undefined ? { status: 204 } : notFound(missing);
  }

  async #show(id: string, subject: Call['subject']) {
    const found = await this.#tokens.get(id, userOf(subject).customerId);
    return found === undefined ? notFound(id) : { status: 200, json: tokenObject(found) };
  }

  /** One's own token needs no more than the endpoint asked for; another user's needs `action`. */
  async #refuseToken(id: string, subject: Call['subject'], action: string): Promise<Refusal | undefined> {
    const user = userOf(subject);
    const found = await this.#tokens.get(id, user.customerId);
    if (found === undefined) return notFound(id);
    return found.token.userId === user.id ? undefined : this.#refuseOthers(subject, action);
  }

  #refuseOthers(subject: Call['subject'], action: string): Refusal | undefined {
    const known = subjectOf(subject);
    if (known.credential !== 'session' && known.token.services.length > 0) {
      const detail = `A token limited to services is not allowed to perform ${action}`;
      return { refusal: 'service_limited', action, detail };
    }
    return this.#policy.refuse(known, action, null);
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

function subjectOf(subject: Call['subject']): Subject {
  if (subject === null)
    throw new Error('the gate let a request without a subject to an endpoint that needs one');
  return subject;
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
