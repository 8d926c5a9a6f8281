import type { Refusal } from '../../domain/refusal.js';
import type { Verdict } from '../../gate/verdict.js';
import type { PeerSocket } from '../../http/client-address.js';
import { firstField } from '../../http/fields.js';
import type { RequestHead } from '../../http/head.js';
import { type Reply, refusalReply } from '../../http/replies.js';
import { loginAddress } from '../../pipeline/login-redirect.js';
import { RequestHandler } from '../../pipeline/request-handler.js';
import { refuseHandshake } from '../../upstream/handshake.js';
import { type OriginalRequest, isHandshakeCheck } from './protocols.js';

/**
 * Returns the reply to a refused check.
 *
 * nginx understands only 401 and 403. So every refusal that is not about the credential is a 403
 * with its original message. Faults keep their status, which every proxy treats as a refusal.
 */
export function denial(refusal: Refusal): Reply {
  const answer = refusalReply(refusal);
  const isKept = answer.status === 401 || (answer.status >= 500 && refusal.refusal !== 'method_unknown');
  return isKept ? answer : { ...answer, status: 403 };
}

/** The entrance for proxies that ask for decisions, over any protocol. */
export abstract class DecisionHandler extends RequestHandler {
  /** Whether the response lists fields for the proxy to remove. */
  protected abstract get namesRemoved(): boolean;

  /** Reads the head of the request that a proxy asks about. */
  protected readOriginalHead(
    { method, target, fields }: OriginalRequest,
    httpVersion: string,
    socket: PeerSocket,
  ): RequestHead | Refusal {
    const head = this.services.readHead({ method, url: target, httpVersion, rawHeaders: fields, socket });
    if ('refusal' in head || head.webSocket) return head;
    // With any other protocol, a client could bypass the decision once the
    // upstream agrees to switch.
    if (hasUpgrade(head)) return { refusal: 'malformed', detail: 'only Upgrade: websocket is accepted' };
    return isHandshakeCheck(head.fields) ? { ...head, webSocket: true } : head;
  }

  protected override answersAtOnce(head: RequestHead): boolean {
    const refusal = this.services.decisionHeaders.refuse(head, this.namesRemoved);
    if (refusal !== undefined) this.refuse(refusal);
    return refusal !== undefined;
  }

  protected override refusalOf(head: RequestHead, verdict: Verdict): Refusal | undefined {
    if (this.record.endpoint !== null) return builtInEndpoint(head);
    return verdict.refusal ?? (hasUpgrade(head) ? refuseHandshake(head) : undefined);
  }

  /** A page request goes to the login, where its route says so. */
  protected override answerOf(refusal: Refusal): Reply {
    const { head, loginPath } = this.record;
    const location = head && loginAddress(head, refusal, loginPath, this.services.pageOf);
    return head && location !== null ? this.redirectTo(location, head, refusal) : denial(refusal);
  }

  /** @param location of the web page or of a provider's login: a path with a query */
  protected redirectTo(location: string, _head: RequestHead, _refusal: Refusal): Reply {
    return { status: 303, headers: ['Location', location] };
  }

  protected override refuse(refusal: Refusal): void {
    if (refusal.refusal === 'malformed_check' || refusal.refusal === 'own_endpoint')
      this.services.reportMisconfiguration(refusal);
    super.refuse(refusal);
  }
}

function hasUpgrade({ fields }: RequestHead): boolean {
  return firstField(fields, 'upgrade') !== undefined;
}

function builtInEndpoint({ path }: RequestHead): Refusal {
  return {
    refusal: 'own_endpoint',
    detail: `Latchkey serves ${path} itself; make the proxy forward it to Latchkey's public listener (listen) without a check`,
  };
}
