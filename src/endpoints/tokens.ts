import type { Logins } from '../accounts/login.js';
import type { Tokens } from '../accounts/tokens.js';
import { segmentAt } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import type { Ownership } from '../gate/ownership.js';
import type { Answer } from '../http/answers.js';
import { type Call, type Handler, subjectOf } from './call.js';
import type { CreatedTokenObject, TokenObject } from './schema/answers.js';
import { readCreateToken, readRevokeTokens } from './schema/requests.js';
import type { SudoUser } from './sudo.js';
import { createdTokenFact, revokedTokenFact } from './token-facts.js';
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
    );
    if ('refusal' in checked) return checked;
    const created = await this.#tokens.create(checked.user, request, now);
    if ('refusal' in created) return created;
    const { token, secret } = created;
    return {
      status: 200,
      json: createdTokenObject(token, secret),
      facts: [...checked.facts, createdTokenFact(token)],
    };
  };

  /** GET /tokens */
  listOwn: Handler<TokenObject[]> = async ({ subject }) => {
    const tokens = await this.#tokens.ofUser(userOf(subject).id);
    return { status: 200, json: tokens.map(tokenObject) };
  };

  /** GET /customer/:id/tokens; the gate let only the caller's own customer through. */
  listCustomer: Handler<TokenObject[]> = async ({ subject }) => {
    const tokens = await this.#tokens.ofCustomer(userOf(subject).customerId);
    return { status: 200, json: tokens.map(tokenObject) };
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

  async #revoke(ids: readonly string[]): Promise<Answer<undefined> | Refusal> {
    const [missing] = await this.#tokens.revoke(ids);
    return missing === undefined ? { status: 204, facts: ids.map(revokedTokenFact) } : notFound(missing);
  }

  async #show(id: string, subject: Call['subject']): Promise<Answer<TokenObject> | Refusal> {
    const found = await this.#tokens.get(id, userOf(subject).customerId);
    return found === undefined ? notFound(id) : { status: 200, json: tokenObject(found) };
  }
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
