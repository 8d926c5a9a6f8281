import type { IncomingRequest, OutgoingResponse } from '../../http/exchange.js';
import { METHODS } from '../../domain/methods.js';
import type { Refusal } from '../../domain/refusal.js';
import type { Admitted } from '../../gate/gate.js';
import { type Reply, refusalReply } from '../../http/replies.js';
import type { RequestHead } from '../../http/head.js';
import { writeReply } from '../../http/write-reply.js';
import { rateLimitFields } from '../../pipeline/rate-limit-fields.js';
import type { Services } from '../../pipeline/services.js';
import { DecisionHandler, type TellMistake } from './handler.js';
import { type ForwardAuthProtocol, protocolOf, PROTOCOLS, readAsked } from './protocols.js';

const SERVED: ReadonlySet<string> = new Set(METHODS);
const PATHS = PROTOCOLS.map(({ path, fields }) => (fields === null ? `${path}/*` : path)).join(', ');

/** The entrance of proxies that ask by HTTP: what is allowed is a 200 with the fields for their upstream. */
export class CheckHandler extends DecisionHandler {
  readonly #req: IncomingRequest;
  readonly #res: OutgoingResponse;
  readonly #protocol: ForwardAuthProtocol | undefined;

  constructor(services: Services, tellMistake: TellMistake, req: IncomingRequest, res: OutgoingResponse) {
    super(services, tellMistake);
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
    return 'refusal' in asked ? asked : this.readAskedHead(asked, httpVersion, socket);
  }

  protected get namesRemoved(): boolean {
    return this.#protocol?.namesRemoved === true;
  }

  protected override answerOf(refusal: Refusal): Reply {
    return this.#protocol === undefined ? refusalReply(refusal) : super.answerOf(refusal);
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

  protected allow(head: RequestHead, { writes }: Admitted, identity: readonly string[]): void {
    const { decisionHeaders, rateLimitNames } = this.services;
    const fields = decisionHeaders.fields(head, identity);
    if (this.namesRemoved)
      fields.push('x-envoy-auth-headers-to-remove', decisionHeaders.removed(head, fields).join(','));
    fields.push(...rateLimitFields(rateLimitNames, writes), ...this.expiryFields());
    this.answer({ status: 200, headers: fields }, 'allowed');
  }
}
