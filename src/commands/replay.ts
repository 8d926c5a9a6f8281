import type { LoadedConfig } from '../config/load.js';
import { configHash } from '../config/mask.js';
import { formatTime } from '../util/time.js';
import type { ComparedPolicies } from '../policy-diff/compare.js';
import { reportedRoute } from '../policy-diff/report.js';
import type { Store } from '../store/core/store.js';
import { hasCaller, type LoggedRequest, readLogLine, linesOf } from './log-lines.js';
import { callerKey, callersOf, createReplay, type Replayed } from './replay-judge.js';
import { CommandFailed } from './terminal/output.js';
import { hasStore, withStore } from './with-store.js';

export type ReplayReport = Awaited<ReturnType<typeof replay>>;
export type AffectedRequests = ReturnType<typeof affectedRequests>;
type Changed = Extract<Replayed, { rules: unknown }>;

/** @throws CommandFailed when the file is not a log */
export async function replay(running: LoadedConfig, compared: ComparedPolicies, file: string) {
  const counts = { requests: 0, unchanged: 0, newly_allowed: 0, newly_refused: 0 };
  const left = { unreadable_lines: 0, other_entries: 0, other_configuration: 0 };
  const undecided = new Map<string, number>();
  const affected = new Map<string, AffectedRequests>();
  const hash = configHash(running);
  const note = (request: LoggedRequest, replayed: Replayed) => {
    counts.requests += 1;
    if (request.config_hash !== null && request.config_hash !== hash) left.other_configuration += 1;
    if (replayed.outcome === 'undecided') {
      undecided.set(replayed.why, (undecided.get(replayed.why) ?? 0) + 1);
      return;
    }
    counts[replayed.outcome] += 1;
    if (replayed.outcome !== 'unchanged') addAffected(affected, compared, request, replayed);
  };
  const replayAll = async (store: Store | null) => {
    const replayOne = createReplay(compared, callersOf(store, running));
    for await (const { bytes } of linesOf(file)) {
      if (bytes.length === 0) continue;
      const request = readLogLine(bytes.toString());
      if (request === 'other') left.other_entries += 1;
      else if (request === 'unreadable') left.unreadable_lines += 1;
      else note(request, await replayOne(request));
    }
  };
  await (hasStore(running) ? withStore(running, async ({ store }) => replayAll(store)) : replayAll(null));
  if (counts.requests === 0 && left.unreadable_lines > 0)
    throw new CommandFailed(
      `${file === '-' ? 'standard input' : file} has no request entries; pass the log as Latchkey wrote it`,
    );
  return {
    ...counts,
    not_judged: [...undecided].map(([why, requests]) => ({ why, requests })).toSorted(byRequests),
    ...left,
    noticed: [...affected.values()].toSorted(byRequests),
  };
}

function byRequests(a: { requests: number }, b: { requests: number }): number {
  return b.requests - a.requests;
}

/** Requests of one sender with the same method, routes and rules share an entry. */
function addAffected(
  affected: Map<string, AffectedRequests>,
  compared: ComparedPolicies,
  request: LoggedRequest,
  replayed: Changed,
): void {
  const routes = replayed.matches.map((match) => (typeof match === 'string' ? null : match.route));
  const paths = routes.map((route) => route?.position?.path ?? route?.path);
  const who = hasCaller(request) ? callerKey(request) : null;
  const key = JSON.stringify([replayed.outcome, who, request.method, paths, replayed.rules]);
  const at = Date.parse(request.time ?? '');
  const time = Number.isNaN(at) ? null : formatTime(at);
  const known = affected.get(key);
  if (known === undefined) affected.set(key, affectedRequests(compared, request, replayed, time));
  else {
    known.requests += 1;
    if (time !== null && (known.first === null || time < known.first)) known.first = time;
    if (time !== null && (known.last === null || time > known.last)) known.last = time;
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
