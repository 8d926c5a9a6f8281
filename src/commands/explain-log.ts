import type { LoadedConfig } from '../config/load.js';
import { configHash } from '../config/mask.js';
import type { Explanation } from '../gate/explain.js';
import { type SimulatedCaller, type SimulatedRequest, Simulator } from '../pipeline/simulate.js';
import type { Store } from '../store/store.js';
import { isReplayable, type LoggedRequest, type ReplayableRequest, whyNotReplayable } from './access-log.js';
import { agreesWithLog, type Comparison, compareWithLog, decidedElsewhere } from './compare-logged.js';
import { findChanges, type FoundChanges } from './find-changes.js';
import type { LoggedEntries } from './find-logged-request.js';
import { rebuildCaller } from './logged-caller.js';
import { isJwt, tokenOf } from './situation.js';
import { WrongUsage } from './terminal/failure.js';
import { hasStore, withStore } from './with-store.js';

/** Details of a request that are missing from its log entry and supplied by the operator. */
export interface Supplement {
  /** The request target with its query. */
  readonly target: string | undefined;
  /** Header field names and values, alternating. */
  readonly fields: readonly string[];
  readonly address: string | undefined;
}

/** A logged request, decided again under a configuration. */
export interface LoggedExplanation {
  readonly entry: LoggedRequest;
  /** All entries with the same request id; the last one is explained. */
  readonly entries: readonly LoggedRequest[];
  /** The configuration that decides now. */
  readonly file: string;
  readonly configHash: string;
  /** Whether that configuration also decided originally; null when the entry does not name one. */
  readonly isOriginalConfig: boolean | null;
  readonly notes: readonly string[];
  /** null when the request cannot be rebuilt. Its caller may be missing: see `hasVerdict`. */
  readonly explanation: Explanation | null;
  /** Whether the verdict is valid for the logged request; otherwise only its route is. */
  readonly hasVerdict: boolean;
  readonly comparison: Comparison;
  /** null when no rule decided. */
  readonly changes: FoundChanges | null;
}

/** Decides a logged request again and compares the verdict with the log. */
export async function explainLogged(
  loaded: LoadedConfig,
  found: LoggedEntries,
  supplement: Supplement,
): Promise<LoggedExplanation> {
  const entry = found.entries.at(-1) as LoggedRequest;
  const hash = configHash(loaded);
  const isOriginalConfig = entry.configHash === null ? null : entry.configHash === hash;
  const base = { entry, entries: found.entries, file: loaded.file, configHash: hash, isOriginalConfig };
  const request = rebuildRequest(entry, supplement);
  if (typeof request === 'string') {
    const comparison = { result: 'undetermined', reason: decidedElsewhere(entry) ?? request } as const;
    return { ...base, notes: [request], explanation: null, hasVerdict: false, comparison, changes: null };
  }
  return withStoreOrNot(loaded, async (store, storeNotes) => {
    const { as, notes } = await rebuildCaller({
      entry,
      loaded,
      store,
      isOriginalConfig: isOriginalConfig === true,
      expiredTokenId: found.expiredTokenId,
    });
    const reevaluated = await reevaluate(
      { loaded, store, request, entry, supplement, isOriginalConfig: isOriginalConfig === true },
      as,
    );
    return {
      ...base,
      ...reevaluated,
      notes: [...storeNotes, ...notes, ...hostNote(loaded, entry), ...reevaluated.notes],
    };
  });
}

interface Question {
  readonly loaded: LoadedConfig;
  readonly store: Store | null;
  readonly request: Omit<SimulatedRequest, 'as'>;
  readonly entry: LoggedRequest;
  readonly supplement: Supplement;
  /** Whether the configuration is the one that decided originally. */
  readonly isOriginalConfig: boolean;
}

/** A caller who is consistent with the log, and the explanation of the request as theirs. */
interface Possible {
  readonly as: SimulatedCaller;
  readonly explanation: Explanation;
}

type Reevaluated = Pick<LoggedExplanation, 'explanation' | 'hasVerdict' | 'comparison' | 'changes' | 'notes'>;

async function reevaluate(question: Question, callers: readonly SimulatedCaller[]): Promise<Reevaluated> {
  const { loaded, store, request, entry } = question;
  const simulator = new Simulator(loaded, store);
  const now = (entry.time ?? Date.now()) - (entry.ms ?? 0);
  const all = await Promise.all(
    callers.map(async (as) => ({ as, explanation: await simulator.simulate({ ...request, as }, now) })),
  );
  const possible = question.isOriginalConfig ? agreeing(question, all) : all;
  const [first] = possible;
  const missing = first === undefined ? 'who sent the request' : differs(possible) ? CLAIMS : whatIsMissing(question, first);
  if (missing !== undefined || first === undefined) {
    const shown = first?.explanation ?? (await simulator.simulate({ ...request, as: 'anonymous' }, now));
    const notes = first === undefined ? [] : howToSupply(question, first.explanation);
    return routeAlone(shown, { result: 'undetermined', reason: missing ?? null }, notes);
  }
  const { as, explanation } = first;
  const comparison = compareWithLog(entry, explanation);
  // The original route did not authenticate the sender, who may have had a credential.
  if (as === 'anonymous' && explanation.verdict.outcome === 'unauthenticated')
    return routeAlone(explanation, comparison, []);
  const decided = { loaded, as, explanation, address: request.address ?? null, now };
  const changes =
    comparison.result === 'undetermined'
      ? null
      : await findChanges(decided, { ...request, address: request.address }, store);
  const notes = [
    ...(possible.length < all.length ? ['evaluated as the subject whose decision matches the logged one'] : []),
    ...(possible.length > 1 ? [`${possible.length} subjects get the same decision; the first one is shown`] : []),
  ];
  return { explanation, hasVerdict: true, comparison, changes, notes };
} // prettier-ignore

const CLAIMS = 'claims of the JWT that are not in the log';

/**
 * Returns the candidates whose verdict is the logged one, or may be; all of them when there are
 * none.
 */
function agreeing(question: Question, all: readonly Possible[]): readonly Possible[] {
  const some = all.filter(
    (each) => agreesWithLog(question.entry, each.explanation) || whatIsMissing(question, each) !== undefined,
  );
  return some.length > 0 ? some : all;
}

function differs(possible: readonly Possible[]): boolean {
  return new Set(possible.map(({ explanation }) => explanation.verdict.outcome)).size > 1;
}

function routeAlone(explanation: Explanation, comparison: Comparison, notes: readonly string[]): Reevaluated {
  return { explanation: { ...explanation, note: null }, hasVerdict: false, comparison, changes: null, notes };
}

/**
 * Returns what the verdict depends on and is in neither the log nor the supplement, if anything.
 */
function whatIsMissing(
  { loaded, entry, supplement }: Question,
  { as, explanation }: Possible,
): string | undefined {
  const token = tokenOf(as);
  const addresses = token?.restrictions?.addresses ?? loaded.config.tokens.limits.addresses;
  const isLimited = token !== null && !isJwt(as) && addresses !== null;
  if (isLimited && entry.client === null && supplement.address === undefined) return 'the address of the client';
  const source = serviceSource(loaded, explanation);
  if (source === undefined || explanation.service !== null || explanation.verdict.outcome !== 'service')
    return undefined;
  const [from, name] = source;
  const isGiven =
    from === 'query' ? supplement.target !== undefined : supplement.fields.some((field) => field.toLowerCase() === name.toLowerCase());
  return isGiven ? undefined : `the service, which the ${from === 'query' ? 'parameter' : 'header field'} ${name} names`;
} // prettier-ignore

function howToSupply({ loaded, entry, request }: Question, explanation: Explanation): string[] {
  const source = serviceSource(loaded, explanation);
  if (explanation.verdict.outcome === 'service' && source !== undefined) {
    const [from, name] = source;
    const option = from === 'query' ? `--path '${request.target}?${name}=ID'` : `--header '${name}: ID'`;
    return [`the value of ${name} is not in the log: add ${option}`];
  }
  return entry.client === null
    ? ['the address of the client is not in the log (log.fields): add --address IP']
    : [];
}

/** Where the route takes its service from, if not the path: `query` or `header`, and the name. */
function serviceSource(
  { config }: LoadedConfig,
  { route }: Explanation,
): ['query' | 'header', string] | undefined {
  const [, at] = /^routes\.(\d+)$/.exec(route?.place?.path ?? '') ?? [];
  const [, from, name] =
    /^(query|header):(.*)$/.exec((at === undefined ? null : config.routes[Number(at)]?.service) ?? '') ?? [];
  return from === undefined || name === undefined ? undefined : [from as 'query' | 'header', name];
}

/** Rebuilds the request of an entry, or returns why that is impossible. */
function rebuildRequest(
  entry: LoggedRequest,
  { target, fields, address }: Supplement,
): Omit<SimulatedRequest, 'as'> | string {
  const { method, path, host, client } = entry;
  const isComplete = isReplayable(entry);
  if (isComplete && target !== undefined) refuseOtherPath(entry, target);
  // A path that the log holds only in part may be supplied in full.
  if (method === null || (!isComplete && target === undefined)) return whyNotReplayable(entry) ?? '';
  const given = fields.some((field, i) => i % 2 === 0 && field.toLowerCase() === 'host');
  return {
    method,
    target: target ?? path ?? '/',
    fields: [...fields, ...(host === null || given ? [] : ['Host', host])],
    address: client ?? address,
  };
}

function refuseOtherPath({ path }: ReplayableRequest, target: string): void {
  if (target.split('?', 1)[0] !== path)
    throw new WrongUsage(`explain: --path: the logged path is ${path}; pass that path with its query`);
}

/** The host matters only when the web page has a host of its own. */
function hostNote({ config }: LoadedConfig, { host }: LoggedRequest): string[] {
  const { ui } = config.interface;
  return ui.enabled && ui.host !== null && host === null
    ? [
        `the host is not in the log (log.fields): evaluated as a request for the API, not for the page at ${ui.host}`,
      ]
    : [];
}

/**
 * Opens the store to read it, as other commands do. On failure, `work` gets a note and must rely on
 * the log alone.
 */
async function withStoreOrNot<T>(
  loaded: LoadedConfig,
  work: (store: Store | null, notes: readonly string[]) => Promise<T>,
): Promise<T> {
  if (!hasStore(loaded)) return work(null, ['there is no store yet: roles, scopes and services are unknown']);
  let opened = false;
  try {
    return await withStore(loaded, async ({ store }) => {
      await store.maintenance.probe();
      opened = true;
      return work(store, []);
    });
  } catch (error) {
    if (opened) throw error;
    return work(null, [`the store cannot be read: ${(error as Error).message}`]);
  }
}
