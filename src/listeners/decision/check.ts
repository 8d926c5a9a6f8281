import type { IncomingRequest, OutgoingResponse } from '../../http/exchange.js';
import { METHODS } from '../../domain/methods.js';
import type { Refusal } from '../../domain/refusal.js';
import type { Admitted, Verdict } from '../../gate/gate.js';
import { type Reply, refusalReply } from '../../http/replies.js';
import { firstField } from '../../http/fields.js';
import type { RequestHead } from '../../http/head.js';
import { writeReply } from '../../http/write-reply.js';
import { rateLimitFields } from '../../pipeline/rate-limit-fields.js';
import { RequestHandler } from '../../pipeline/request-handler.js';
import type { Services } from '../../pipeline/services.js';
import { refuseHandshake } from '../../upstream/handshake.js';
import {
  asksAboutHandshake,
  type ForwardAuthProtocol,
  protocolOf,
  PROTOCOLS,
  readAsked,
} from './protocols.js';

/** Called with what the operator of the proxy has to fix. */
export type TellMistake = (services: Services, refusal: Refusal & { readonly detail: string }) => void;

const SERVED: ReadonlySet<string> = new Set(METHODS);
const PATHS = PROTOCOLS.map(({ path, fields }) => (fields === null ? `${path}/*` : path)).join(', ');

/**
 * The answer to a check that is refused. nginx understands 401 and 403 only, so whatever is not about the credential is
 * 403 and keeps its words; faults stay faults, which every proxy refuses too.
 */
export function denial(refusal: Refusal): Reply {
  const answer = refusalReply(refusal);
  return answer.status === 401 || answer.status >= 500 ? answer : { ...answer, status: 403 };
}

/** The entrance of proxies that ask first: what is allowed is a 200 with the fields for their upstream. */
export class CheckHandler extends RequestHandler {
  readonly #tellMistake: TellMistake;
  readonly #req: IncomingRequest;
  readonly #res: OutgoingResponse;
  readonly #protocol: ForwardAuthProtocol | undefined;

  constructor(services: Services, tellMistake: TellMistake, req: IncomingRequest, res: OutgoingResponse) {
    super(services);
    this.#tellMistake = tellMistake;
    this.#req = req;
    this.#res = res;
    this.#protocol = protocolOf(req.url ?? '');
  }

  /** The head of the request asked about: the check request's fields, with the method and target that it tells. */
  protected readHead(): RequestHead | Refusal {
    if (this.#protocol === undefined)
      return { refusal: 'not_found', detail: `the decision port has ${PATHS}` };
    const { method = '', httpVersion, socket } = this.#req;
    if (!SERVED.has(method))
      return { refusal: 'method_not_allowed', detail: `the method ${method} is not served` };
    const asked = readAsked(this.#protocol, this.#req);
    if ('refusal' in asked) return asked;
    const head = this.services.readHead({
      method: asked.method,
      url: asked.target,
      httpVersion,
      rawHeaders: asked.fields,
      socket,
    });
    if ('refusal' in head || head.webSocket) return head;
    // A proxy that passes another protocol on lets the client talk past the decision, once the upstream agrees to it.
    if (hasUpgrade(head))
      return { refusal: 'malformed', detail: 'the only Upgrade that is let in is "websocket"' };
    return asksAboutHandshake(head.fields) ? { ...head, webSocket: true } : head;
  }

  protected override refuseHead(head: RequestHead): Refusal | undefined {
    return this.services.decisionHeaders.refuse(head, this.#protocol?.namesRemoved === true);
  }

  protected override refusalOf(head: RequestHead, verdict: Verdict): Refusal | undefined {
    if (this.record.endpoint !== null) return builtInEndpoint(head);
    return verdict.refusal ?? (hasUpgrade(head) ? refuseHandshake(head) : undefined);
  }

  protected override answerOf(refusal: Refusal): Reply {
    return this.#protocol === undefined ? refusalReply(refusal) : denial(refusal);
  }

  protected override refuse(refusal: Refusal): void {
    if (refusal.refusal === 'malformed_check' || refusal.refusal === 'own_endpoint')
      this.#tellMistake(this.services, refusal);
    super.refuse(refusal);
  }

  protected get isGone(): boolean {
    return this.#res.destroyed;
  }

  protected get hasAnswered(): boolean {
    return this.#res.headersSent;
  }

  protected destroy(): boolean {
    this.#res.destroy();
    return false;
  }

  protected write(reply: Reply): void {
    writeReply(this.#req, this.#res, reply, this.record.requestId);
  }

  /** {@link refusalOf} lets none through. */
  protected answerEndpoint(head: RequestHead): void {
    this.refuse(builtInEndpoint(head));
  }

  protected allow(head: RequestHead, { writes }: Admitted, identity: readonly string[]): void {
    const { decisionHeaders, rateLimitNames } = this.services;
    const fields = decisionHeaders.fields(head, identity);
    if (this.#protocol?.namesRemoved === true)
      fields.push('x-envoy-auth-headers-to-remove', decisionHeaders.removed(head, fields));
    fields.push(...rateLimitFields(rateLimitNames, writes), ...this.expiryFields());
    this.answer({ status: 200, headers: fields }, 'allowed');
  }
}

function hasUpgrade({ fields }: RequestHead): boolean {
  return firstField(fields, 'upgrade') !== undefined;
}

function builtInEndpoint({ path }: RequestHead): Refusal {
  return {
    refusal: 'own_endpoint',
    detail: `Latchkey serves ${path} itself; let the proxy send it to Latchkey's own listener (listen) without asking`,
  };
}
