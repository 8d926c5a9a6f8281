import type { LoadedConfig } from '../config/load.js';
import { configHash } from '../config/mask.js';
import { formatTime } from '../util/time.js';
import type { ComparedPolicies } from '../policy-diff/compare.js';
import { reportedRoute } from '../policy-diff/report.js';
import type { Store } from '../store/core/store.js';
import { hasCaller, type LoggedRequest, readLogLine, linesOf } from './log-lines.js';
import { callerKey, Callers, type Replayed, Replayer } from './replay-judge.js';
import { CommandFailed } from './terminal/output.js';
import { hasStore, withStore } from './with-store.js';

export type ReplayReport = ReturnType<Counts['report']>;
export type AffectedRequests = ReturnType<typeof affectedRequests>;

/** @throws CommandFailed when the file is not a log */
export async function replay(
  running: LoadedConfig,
  compared: ComparedPolicies,
  file: string,
): Promise<ReplayReport> {
  const counts = new Counts(compared, configHash(running));
  const replayAll = async (store: Store | null) => {
    const replayer = new Replayer(compared, new Callers(store, running));
    for await (const { bytes } of linesOf(file)) {
      const request = bytes.length === 0 ? 'blank' : readLogLine(bytes.toString());
      if (typeof request === 'string') counts.skip(request);
      else counts.note(request, await replayer.replay(request));
    }
  };
  await (hasStore(running) ? withStore(running, async ({ store }) => replayAll(store)) : replayAll(null));
  const report = counts.report();
  if (report.requests === 0 && report.unreadable_lines > 0)
    throw new CommandFailed(
      `${file === '-' ? 'standard input' : file} has no request entries; pass the log as Latchkey wrote it`,
    );
  return report;
}

type Changed = Extract<Replayed, { rules: unknown }>;

class Counts {
  requests = 0;
  readonly #compared: ComparedPolicies;
  readonly #hash: string;
  readonly #counts = { unchanged: 0, newly_allowed: 0, newly_refused: 0 };
  readonly #undecided = new Map<string, number>();
  readonly #affected = new Map<string, AffectedRequests>();
  #unreadable = 0;
  #others = 0;
  #otherConfiguration = 0;

  constructor(compared: ComparedPolicies, hash: string) {
    this.#compared = compared;
    this.#hash = hash;
  }

  skip(kind: 'other' | 'unreadable' | 'blank'): void {
    if (kind === 'other') this.#others += 1;
    else if (kind === 'unreadable') this.#unreadable += 1;
  }

  note(request: LoggedRequest, replayed: Replayed): void {
    this.requests += 1;
    if (request.config_hash !== null && request.config_hash !== this.#hash) this.#otherConfiguration += 1;
    if (replayed.outcome === 'undecided') {
      this.#undecided.set(replayed.why, (this.#undecided.get(replayed.why) ?? 0) + 1);
      return;
    }
    this.#counts[replayed.outcome] += 1;
    if (replayed.outcome !== 'unchanged') this.#addAffected(request, replayed);
  }

  #addAffected(request: LoggedRequest, replayed: Changed): void {
    const routes = replayed.matches.map((match) => (typeof match === 'string' ? null : match.route));
    const paths = routes.map((route) => route?.position?.path ?? route?.path);
    const who = hasCaller(request) ? callerKey(request) : null;
    const key = JSON.stringify([replayed.outcome, who, request.method, paths, replayed.rules]);
    const at = Date.parse(request.time ?? '');
    const time = Number.isNaN(at) ? null : formatTime(at);
    const known = this.#affected.get(key);
    if (known !== undefined) {
      known.requests += 1;
      if (time !== null && (known.first === null || time < known.first)) known.first = time;
      if (time !== null && (known.last === null || time > known.last)) known.last = time;
    } else this.#affected.set(key, affectedRequests(this.#compared, request, replayed, time));
  }

  report() {
    return {
      requests: this.requests,
      ...this.#counts,
      not_judged: [...this.#undecided]
        .map(([why, requests]) => ({ why, requests }))
        .toSorted((a, b) => b.requests - a.requests),
      unreadable_lines: this.#unreadable,
      other_entries: this.#others,
      other_configuration: this.#otherConfiguration,
      noticed: [...this.#affected.values()].toSorted((a, b) => b.requests - a.requests),
    };
  }
}

function affectedRequests({ sides }: ComparedPolicies, request: LoggedRequest, replayed: Changed, time: string | null) {
  const { outcome, caller: known, matches, rules } = replayed;
  const method = request.method ?? '';
  const caller = hasCaller(request) ? request : null;
  return {
    change: outcome,
    customer_id: caller?.customer_id ?? null,
    user_id: caller?.user_id ?? null,
    login: known?.login ?? null,
    credential: caller?.credential ?? null,
    token_id: caller?.token_id ?? null,
    token_name: known?.tokenName ?? null,
    method,
    route: reportedRoute(sides[0], matches[0], method),
    against_route: reportedRoute(sides[1], matches[1], method),
    rule: rules[0],
    against_rule: rules[1],
    requests: 1,
    first: time,
    last: time,
    request_id: request.request_id,
  };
} // prettier-ignore
