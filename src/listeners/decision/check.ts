import type { IncomingRequest, OutgoingResponse, Serve } from '../../http/exchange.js';
import { refuseMethod } from '../../domain/methods.js';
import type { Refusal } from '../../domain/refusal.js';
import type { Admitted } from '../../gate/verdict.js';
import { firstField } from '../../http/fields.js';
import { refusalReply, type Reply, withHeaders } from '../../http/replies.js';
import type { RequestHead } from '../../http/head.js';
import { writeReply } from '../../http/write-reply.js';
import { rateLimitFields } from '../../pipeline/response-fields.js';
import type { Services } from '../../pipeline/services.js';
import { DecisionHandler, denial } from './handler.js';
import {
  type ForwardAuthProtocol,
  protocolOf,
  PROTOCOLS,
  readOriginalRequest,
  refuseHost,
} from './protocols.js';
import type { ListenerLimits } from '../limits.js';
import { createPublicServer, type PortHandlers, type PublicServer } from '../server.js';

const PATHS = PROTOCOLS.map(({ path, fields }) => (fields === null ? `${path}/*` : path)).join(', ');

/** The entrance for checks over HTTP: an allowed one is a 200 with the fields for the upstream. */
class CheckHandler extends DecisionHandler {
  readonly #req: IncomingRequest;
  readonly #res: OutgoingResponse;
  readonly #protocol: ForwardAuthProtocol | undefined;

  constructor(services: Services, req: IncomingRequest, res: OutgoingResponse) {
    super(services, req.socket, res);
    this.#req = req;
    this.#res = res;
    this.#protocol = protocolOf(req.url ?? '');
  }

  /**
   * Reads the head of the original request.
   *
   * It has the fields of the check, with the method and target that the check reports.
   */
  protected readHead(): RequestHead | Refusal {
    if (this.#protocol === undefined)
      return { refusal: 'not_found', detail: `the decision port serves ${PATHS}` };
    const { method = '', url = '', httpVersion, socket } = this.#req;
    const original = readOriginalRequest(this.#protocol, this.#req);
    if ('refusal' in original) return original;
    const head = this.readOriginalHead(original, httpVersion, socket);
    return 'refusal' in head ? head : (refuseMethod(method, url) ?? refuseHost(original, head) ?? head);
  }

  protected get namesRemoved(): boolean {
    return this.#protocol?.namesRemoved === true;
  }

  protected override answerOf(refusal: Refusal): Reply {
    return this.#protocol === undefined ? refusalReply(refusal) : super.answerOf(refusal);
  }

  /**
   * Clients resolve a relative Location at their own host, Traefik at that of the check. nginx
   * accepts no redirect, but can use the Location of a 401.
   */
  protected override redirectTo(location: string, { client }: RequestHead, refusal: Refusal): Reply {
    const isSameHost = firstField(this.#req.rawHeaders, 'host') === client.host;
    const origin = isSameHost ? '' : `${client.secure ? 'https' : 'http'}://${client.host}`;
    const headers = ['Location', origin + location];
    return this.#protocol?.isNginx === true
      ? withHeaders(denial(refusal), headers)
      : { status: 303, headers };
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

/**
 * Creates the listener for checks.
 *
 * @param services returns the current services; a check keeps those that it began with
 */
export function createDecisionListener(services: () => Services): Serve {
  return (req, res) => new CheckHandler(services(), req, res).handle();
}

/**
 * Creates the server of the decision port, with the limits and the strictness of the public one.
 *
 * It never switches protocols: an `Upgrade` that a proxy passes on to its check (Caddy) belongs to
 * the request that the check is about.
 */
export function createDecisionServer(
  limits: ListenerLimits,
  handlers: Pick<PortHandlers, 'serve' | 'unreadable' | 'fault'>,
): PublicServer {
  return createPublicServer(limits, null, { ...handlers, upgrade: null, answerOf: denial });
}
