// src/listeners/decision: the entrance for proxies that ask for a decision.
// May import what listeners may.
// `protocols.ts` reads the request that the proxy asks about.

import type { Subject } from '../../domain/credential.js';
import { refuseMethod } from '../../domain/methods.js';
import type { Refusal } from '../../domain/refusal.js';
import type { Verdict } from '../../gate/gate.js';
import type { IncomingRequest, OutgoingResponse, Serve } from '../../http/exchange.js';
import { firstField } from '../../http/fields.js';
import type { RequestHead } from '../../http/head.js';
import { refusalReply, type Reply, withHeaders } from '../../http/replies.js';
import { writeReply } from '../../http/write-reply.js';
import { answer, type Entrance, type Exchange, handle } from '../../pipeline/handle.js';
import { loginAddress } from '../../pipeline/browsers.js';
import { expiryFields, newRecord, rateLimitFields } from '../../pipeline/record.js';
import type { Services, Serving } from '../../pipeline/services.js';
import { refuseHandshake } from '../../upstream/handshake.js';
import {
  type ForwardAuthProtocol,
  type OriginalRequest,
  protocolOf,
  PROTOCOLS,
  readOriginalRequest,
  refuseHost,
} from './protocols.js';

const PATHS = PROTOCOLS.map(({ path, fields }) => (fields === null ? `${path}/*` : path)).join(', ');

/** Creates the listener for checks; a check keeps the services that it began with. */
export function createDecisionListener(serving: Serving): Serve {
  return (req, res) => {
    const check = {
      services: serving.services,
      record: newRecord(),
      peer: req.socket,
      recipient: res,
      isForwarded: false,
      req,
      protocol: protocolOf(req.url ?? ''),
    };
    handle(check, CHECK);
  };
}

interface CheckExchange extends Exchange {
  readonly recipient: OutgoingResponse;
  readonly req: IncomingRequest;
  /** Undefined for any other path than those of {@link PROTOCOLS}. */
  readonly protocol: ForwardAuthProtocol | undefined;
}

/** The entrance for checks over HTTP: an allowed one is a 200 with the fields for the upstream. */
const CHECK: Entrance<CheckExchange> = {
  forwards: false,
  answersPreflights: false,
  read: (check) => {
    const { protocol, req } = check;
    if (protocol === undefined) return { refusal: 'not_found', detail: `the decision port serves ${PATHS}` };
    const { method = '', url = '', httpVersion } = req;
    const original = readOriginalRequest(protocol, req);
    if ('refusal' in original) return original;
    const head = readOriginalHead(check, original, httpVersion);
    if ('refusal' in head) return head;
    return (
      refuseMethod(method, url) ??
      refuseHost(original, head) ??
      refuseFields(check, head, protocol.proxy === 'envoy')
    );
  },
  refusalOf: refusalOfCheck,
  allow: (check, head, { subject, writes }, identity) => {
    const { decisionHeaders } = check.services;
    const fields = decisionHeaders.fields(head, identity);
    if (check.protocol?.proxy === 'envoy')
      fields.push('x-envoy-auth-headers-to-remove', decisionHeaders.removed(head, fields).join(','));
    fields.push(...limitFields(check.services, subject, writes));
    answer(check, CHECK, { status: 200, headers: fields }, 'allowed');
  },
  replyTo: (check, refusal) => {
    if (check.protocol === undefined) return refusalReply(refusal);
    const location = loginOf(check, refusal);
    return location === null ? denial(refusal) : redirectTo(location, check, refusal);
  },
  write: ({ req, recipient, record }, reply) => writeReply(req, recipient, reply, record.requestId),
};

/**
 * Clients resolve a relative Location at their own host, Traefik at that of the check. nginx accepts no
 * redirect, but can use the Location of a 401.
 */
function redirectTo(location: string, { protocol, record, req }: CheckExchange, refusal: Refusal): Reply {
  const { client } = record.head as RequestHead;
  const isSameHost = firstField(req.rawHeaders, 'host') === client.host;
  const origin = isSameHost ? '' : `${client.secure ? 'https' : 'http'}://${client.host}`;
  const headers = ['Location', origin + location];
  return protocol?.proxy === 'nginx' ? withHeaders(denial(refusal), headers) : { status: 303, headers };
}

/**
 * Returns the reply to a refused check. nginx understands only 401 and 403, so every refusal that is not about
 * the credential is a 403 with its original message; faults keep their status, a refusal to every proxy.
 */
export function denial(refusal: Refusal): Reply {
  const reply = refusalReply(refusal);
  const isKept = reply.status === 401 || (reply.status >= 500 && refusal.refusal !== 'method_unknown');
  return isKept ? reply : { ...reply, status: 403 };
}

/** Reads the head of the request that a proxy asks about, over any protocol. */
export function readOriginalHead(
  { services, peer }: Exchange,
  { method, target, fields }: OriginalRequest,
  httpVersion: string,
): RequestHead | Refusal {
  const head = services.readHead({ method, url: target, httpVersion, rawHeaders: fields, socket: peer });
  if ('refusal' in head || head.webSocket) return head;
  // With any other protocol, a client could bypass the decision once the upstream agrees to switch.
  if (hasUpgrade(head)) return { refusal: 'malformed', detail: 'only Upgrade: websocket is accepted' };
  // Some proxies do not pass on `Upgrade`.
  const isHandshake = firstField(head.fields, 'sec-websocket-key') !== undefined;
  return isHandshake ? { ...head, webSocket: true } : head;
}

/**
 * Returns the head, or refuses one with a field that the proxy would let through.
 * @param namesRemoved whether the response lists fields for the proxy to remove
 */
export function refuseFields(
  { record, services }: Exchange,
  head: RequestHead,
  namesRemoved: boolean,
): RequestHead | Refusal {
  record.head = head;
  return services.decisionHeaders.refuse(head, namesRemoved) ?? head;
}

export function refusalOfCheck(
  { record }: Exchange,
  head: RequestHead,
  verdict: Verdict,
): Refusal | undefined {
  if (record.endpoint !== null)
    return {
      refusal: 'own_endpoint',
      detail: `Latchkey serves ${head.path} itself; make the proxy forward it to Latchkey's public listener (listen) without a check`,
    };
  return verdict.refusal ?? (hasUpgrade(head) ? refuseHandshake(head) : undefined);
}

/** Returns where a page request logs in, if its route says so: a path with a query. */
export function loginOf(
  { record: { head, loginPath }, services }: Exchange,
  refusal: Refusal,
): string | null {
  return head === null ? null : loginAddress(head, refusal, loginPath, services.pages);
}

/** Returns the fields for the response to the client. */
export function limitFields(
  { expiryWarning, rateLimitNames }: Services,
  subject: Subject | null,
  writes: Parameters<typeof rateLimitFields>[1],
): readonly string[] {
  return [...rateLimitFields(rateLimitNames, writes), ...expiryFields(expiryWarning, subject)];
}

function hasUpgrade({ fields }: RequestHead): boolean {
  return firstField(fields, 'upgrade') !== undefined;
}
