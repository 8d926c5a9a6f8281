import type { IncomingMessage, ServerResponse } from 'node:http';
import { METHODS } from '../../domain/methods.js';
import type { Refusal } from '../../domain/refusal.js';
import type { Admitted, Verdict } from '../../gate/gate.js';
import { type Answer, answerRefusal, withFields } from '../../http/answers.js';
import type { RequestHead } from '../../http/head.js';
import { writeAnswer } from '../../http/write-answer.js';
import { faultRefusal } from '../public/faults.js';
import { rateLimitFields, refusedLimitFields } from '../public/rate-limit-fields.js';
import { finishRecord, newRecord, noteVerdict, type RequestRecord } from '../public/record.js';
import { beginTrace, judge } from '../public/request-trace.js';
import type { House } from '../public/request.js';
import { newRequestId } from '../public/request-id.js';
import { asksAboutHandshake, type Form, formOf, FORMS, readAsked } from './forms.js';
import type { PassOn } from './pass-on.js';

/** What checks go through: the rooms of requests, and what is said to the proxy instead of forwarding. */
export interface DecisionRooms {
  readonly house: House;
  readonly passOn: PassOn;
}

/** Told what whoever runs the proxy has to mend. */
export type TellMistake = (house: House, refusal: Refusal & { readonly detail: string }) => void;

const SERVED: ReadonlySet<string> = new Set(METHODS);
const PATHS = FORMS.map(({ path, fields }) => (fields === null ? `${path}/*` : path)).join(', ');

/**
 * The answer to a check that is refused. nginx understands 401 and 403 only, so whatever is not about the credential is
 * 403 and keeps its words; faults stay faults, which every proxy refuses too.
 */
export function denial(refusal: Refusal): Answer {
  const answer = answerRefusal(refusal);
  return answer.status === 401 || answer.status >= 500 ? answer : { ...answer, status: 403 };
}

/** One check on its way: the request asked about, the gate, and the verdict as an answer. */
export class Check {
  readonly #rooms: DecisionRooms;
  readonly #tellMistake: TellMistake;
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #record: RequestRecord;

  constructor(rooms: DecisionRooms, tellMistake: TellMistake, req: IncomingMessage, res: ServerResponse) {
    this.#rooms = rooms;
    this.#tellMistake = tellMistake;
    this.#req = req;
    this.#res = res;
    this.#record = newRecord(newRequestId());
  }

  start(): void {
    try {
      const form = formOf(this.#req.url ?? '');
      if (form === undefined) {
        const refusal = { refusal: 'not_found', detail: `the decision port has ${PATHS}` } as const;
        this.#refuse(refusal, answerRefusal(refusal));
        return;
      }
      const head = this.#readHead(form);
      const { tracing } = this.#rooms.house;
      if (tracing !== undefined) beginTrace(tracing, this.#record, 'refusal' in head ? null : head);
      if ('refusal' in head) {
        this.#refuse(head);
        return;
      }
      this.#record.head = head;
      const alias = this.#rooms.passOn.refuseAlias(head);
      if (alias === undefined) this.#judge(form, head);
      else this.#refuse(alias);
    } catch (error) {
      this.#fault(error);
    }
  }

  /** The head of the request asked about: the check request's fields, with the method and target that it tells. */
  #readHead(form: Form): RequestHead | Refusal {
    const { method = '', httpVersion, rawHeaders, socket } = this.#req;
    if (!SERVED.has(method))
      return { refusal: 'method_not_allowed', detail: `the method ${method} is not served` };
    const asked = readAsked(form, this.#req);
    if ('refusal' in asked) return asked;
    const { house } = this.#rooms;
    const head = house.readHead({
      method: asked.method,
      url: asked.target,
      httpVersion,
      rawHeaders,
      socket,
    });
    if ('refusal' in head || head.webSocket || !asksAboutHandshake(rawHeaders)) return head;
    return { ...head, webSocket: true };
  }

  #judge(form: Form, head: RequestHead): void {
    const verdict = judge(this.#record.trace, this.#rooms.house.gate, head);
    if (verdict instanceof Promise)
      verdict.then((v) => this.#follow(form, head, v)).catch((error: unknown) => this.#fault(error));
    else this.#follow(form, head, verdict);
  }

  #follow(form: Form, head: RequestHead, verdict: Verdict): void {
    const record = this.#record;
    noteVerdict(record, verdict);
    if (this.#res.destroyed) finishRecord(record, this.#rooms.house.accessLog);
    else if (record.endpoint !== null) this.#refuse(ownEndpoint(head));
    else if (verdict.refusal !== undefined) this.#refuse(verdict.refusal);
    else this.#tell(form, head, verdict);
  }

  /** Finds out how the upstream is told who is calling, and only then allows. */
  #tell(form: Form, head: RequestHead, admitted: Admitted): void {
    const { subject } = admitted;
    const identity = subject === null ? [] : this.#rooms.house.identify(subject, Date.now());
    if (identity instanceof Promise)
      identity
        .then((fields) => this.#allow(form, head, admitted, fields))
        .catch((error: unknown) => this.#fault(error));
    else this.#allow(form, head, admitted, identity);
  }

  #allow(form: Form, head: RequestHead, { writes }: Admitted, identity: readonly string[]): void {
    const { house, passOn } = this.#rooms;
    const fields = passOn.fields(head, identity);
    if (form.namesRemoved) fields.push('x-envoy-auth-headers-to-remove', passOn.removed(head, fields));
    fields.push(...rateLimitFields(house.rateLimitNames, writes));
    this.#record.outcome = 'allowed';
    this.#write({ status: 200, fields });
  }

  #refuse(refusal: Refusal, answer = denial(refusal)): void {
    const { house } = this.#rooms;
    // The gate lets own endpoints through that are served elsewhere.
    if (this.#record.admitted !== null) this.#record.admitted = false;
    this.#record.outcome = refusal.refusal;
    this.#record.detail = 'detail' in refusal ? refusal.detail : undefined;
    if (refusal.refusal === 'malformed_check' || refusal.refusal === 'own_endpoint')
      this.#tellMistake(house, refusal);
    house.auditor.refused(refusal, this.#record);
    const left = refusedLimitFields(house.rateLimitNames, refusal);
    this.#write(withFields(answer, left));
  }

  #write(answer: Answer): void {
    this.#record.status = answer.status;
    writeAnswer(this.#req, this.#res, answer, this.#record.requestId);
    finishRecord(this.#record, this.#rooms.house.accessLog);
  }

  /** Faults deny. What went wrong is for the log. */
  #fault(error: unknown): void {
    const { house } = this.#rooms;
    house.logFault(error, 'check refused because of a fault', this.#record.requestId);
    if (this.#res.headersSent) this.#res.destroy();
    else this.#refuse(faultRefusal(error));
  }
}

function ownEndpoint({ path }: RequestHead): Refusal {
  return {
    refusal: 'own_endpoint',
    detail: `Latchkey serves ${path} itself; let the proxy send it to Latchkey's own listener (listen) without asking`,
  };
}
