import type { Logins } from '../accounts/login.js';
import { tokenCreatedEvent, tokenRevokedEvent } from '../accounts/token-audit-events.js';
import type { Tokens } from '../accounts/tokens.js';
import { unlessUnknown } from '../accounts/unconfirmed.js';
import { segmentAt } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import type { Ownership } from '../gate/ownership.js';
import type { Reply } from '../http/replies.js';
import { jsonList } from '../http/json-list.js';
import type { TokenWithUse } from '../store/store.js';
import { type Call, type Handler, subjectOf } from './call.js';
import type { CreatedTokenObject, TokenObject } from './schema/answers.js';
import { readCreateToken, readRevokeTokens } from './schema/requests.js';
import type { SudoUser } from './sudo.js';
import { createdTokenObject, tokenObject } from './token-object.js';

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
  create: Handler<CreatedTokenObject> = async ({ head, body, now }) => {
    const { attempt, namesUser, request } = readCreateToken(body);
    const caller = namesUser ? undefined : await this.#sudoUser?.(head, now);
    const checked = await this.#logins.check(
      { ...attempt, otp: head.otp, address: head.client.address, caller },
      400,
      (user) => this.#tokens.create(user, request, now),
    );
    if ('refusal' in checked) return checked;
    const { token, secret } = checked.granted;
    const { customerId } = checked.user;
    return {
      status: 200,
      json: createdTokenObject(token, customerId, secret),
      auditEvents: [...checked.auditEvents, tokenCreatedEvent(token, customerId)],
    };
  };

  /** GET /tokens */
  listOwn: Handler<TokenObject[]> = async ({ subject }) => {
    const { id, customerId } = userOf(subject);
    const tokens = await this.#tokens.ofUser(id);
    return listed(tokens, customerId);
  };

  /** GET /customer/:id/tokens; the gate let only the caller's own customer through. */
  listCustomer: Handler<TokenObject[]> = async ({ subject }) => {
    const { customerId } = userOf(subject);
    const tokens = await this.#tokens.ofCustomer(customerId);
    return listed(tokens, customerId);
  };

  /** GET /tokens/self */
  showSelf: Handler<TokenObject> = async ({ subject }) => this.#show(tokenOf(subject).id, subject);

  /** DELETE /tokens/self */
  revokeSelf: Handler<undefined> = async ({ subject }) => this.#revoke([tokenOf(subject).id]);

  /** GET /tokens/:id; the gate checked whose it is. */
  show: Handler<TokenObject> = async ({ subject, path }) => this.#show(segmentAt(path, 1) ?? '', subject);

  /** DELETE /tokens/:id; the gate checked whose it is. */
  revoke: Handler<undefined> = async ({ path }) => this.#revoke([segmentAt(path, 1) ?? '']);

  /** DELETE /tokens: several at once, all or none. The ids are in the body, so they are judged here. */
  revokeBulk: Handler<undefined> = async ({ subject, body }) => {
    const read = readRevokeTokens(body);
    if ('refusal' in read) return read;
    for (const id of read.ids) {
      const refusal = await this.#ownership.refuseToken(id, subjectOf(subject), 'customer_token:write');
      if (refusal !== undefined) return refusal;
    }
    return this.#revoke(read.ids);
  };

  async #revoke(ids: readonly string[]): Promise<Reply<undefined> | Refusal> {
    const auditEvents = ids.map(tokenRevokedEvent);
    const revoked = await unlessUnknown(auditEvents, async () => this.#tokens.revoke(ids));
    if ('refusal' in revoked) return revoked;
    const [missing] = revoked;
    return missing === undefined ? { status: 204, auditEvents } : notFound(missing);
  }

  async #show(id: string, subject: Call['subject']): Promise<Reply<TokenObject> | Refusal> {
    const { customerId } = userOf(subject);
    const found = await this.#tokens.get(id, customerId);
    return found === undefined ? notFound(id) : { status: 200, json: tokenObject(found, customerId) };
  }
}

/** The array of what {@link tokenObject} shows of each. */
async function listed(tokens: readonly TokenWithUse[], customerId: string): Promise<Reply<TokenObject[]>> {
  return {
    status: 200,
    content: await jsonList(tokens, (found): TokenObject => tokenObject(found, customerId)),
  };
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
