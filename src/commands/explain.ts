import { isIP } from 'node:net';
import { loadConfig } from '../config/load.js';
import { maskTokens, printable } from '../util/text.js';
import type { ExplainedCheck, Explanation } from '../gate/explain.js';
import { syntheticSubject } from '../gate/what-if.js';
import { type SimulatedRequest, Simulator } from '../pipeline/simulate.js';
import { describePosition } from '../policy/decide.js';
import type { Store } from '../store/core/store.js';
import type { TokenWithOwner } from '../store/core/token-records.js';
import { asJson, CommandFailed, print, WrongUsage } from './terminal/output.js';
import { readSecret } from './terminal/password.js';
import { findUser, hasStore, withStore } from './with-store.js';

interface ExplainOptions extends Partial<Record<Texts, string>> {
  readonly config: string;
  readonly path: string;
  readonly header?: readonly string[];
  readonly services?: string[];
  readonly anonymous?: true;
  readonly json?: true;
}

type Texts = 'method' | 'host' | 'address' | 'key' | 'keyFile' | 'user' | 'scope' | 'tokenId';

export async function runExplain(options: ExplainOptions): Promise<void> {
  checkUsage(options);
  const loaded = loadConfig(options.config);
  const request = {
    method: options.method ?? 'GET',
    target: options.path,
    fields: [
      ...(options.host === undefined ? [] : ['Host', options.host]),
      ...(options.header ?? []).flatMap(fieldOf),
    ],
    address: options.address,
  };
  const answer = async (store: Store | null) => {
    const as = await senderOf(options, store);
    const explanation = await new Simulator(loaded, store).simulate({ ...request, as }, Date.now());
    print(maskTokens(options.json ? asJson(explanation) : renderExplanation(explanation)));
  };
  if (!options.anonymous || hasStore(loaded)) await withStore(loaded, async ({ store }) => answer(store));
  else await answer(null);
}

function checkUsage(options: ExplainOptions): void {
  const { key, keyFile, user, anonymous, tokenId, address, scope, services } = options;
  if (!/^[/*]/.test(options.path) && !/^https?:/i.test(options.path))
    throw new WrongUsage(
      `explain: --path: expected a path that starts with "/"; write --path /${options.path}`,
    );
  if (address !== undefined && isIP(address) === 0)
    throw new WrongUsage('explain: --address: expected an IP address');
  if ([key, keyFile, user, anonymous, tokenId].filter((who) => who !== undefined).length !== 1) {
    throw new WrongUsage(
      'explain: choose one credential: --key-file FILE, --key -, --token-id ID, --user LOGIN or --anonymous',
    );
  }
  if (user === undefined && (scope !== undefined || services !== undefined))
    throw new WrongUsage('explain: --scope and --services describe a token of --user LOGIN');
}

async function senderOf(options: ExplainOptions, store: Store | null): Promise<SimulatedRequest['as']> {
  if (options.anonymous) return 'anonymous';
  const key = keyOf(options);
  if (key !== undefined) return { key };
  if (store === null) throw new CommandFailed('there is no store');
  if (options.tokenId !== undefined) return { record: await tokenWithOwner(store, options.tokenId) };
  const user = await findUser(store.directory, options.user ?? '');
  return { subject: syntheticSubject(user, options) };
}

function keyOf({ key, keyFile }: ExplainOptions): string | undefined {
  const file = key === '-' ? '-' : keyFile;
  return file === undefined ? key : readSecret(file, 'the key');
}

function fieldOf(line: string): string[] {
  const colon = line.indexOf(':');
  if (colon <= 0) throw new WrongUsage(`explain: --header: expected "Name: value", got "${line}"`);
  return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
}

async function tokenWithOwner({ tokens, directory }: Store, id: string): Promise<TokenWithOwner> {
  const found = await tokens.get(id);
  const owner = found === undefined ? undefined : await directory.getUser(found.token.userId);
  if (found === undefined || owner === undefined)
    throw new CommandFailed(`no token has the id ${id} (latchkey token list shows them)`);
  return { token: found.token, owner };
}

type Row = readonly [label: string, text: string, position?: string];

function optionalRow(label: string, text: string | null | undefined): Row[] {
  return text == null ? [] : [[label, text]];
}

function renderExplanation(explanation: Explanation): string {
  const { method, target, checks, verdict, note, identity } = explanation;
  const steps: Row[] = [
    ...routeRows(explanation),
    ...credentialRows(explanation),
    ...checks.map((check): Row => [check.check === 'service_limited' ? 'limits' : check.check, checkText(check, explanation), positionText(check)]),
    ...guardRows(explanation),
  ];
  const results: Row[] = [
    ['verdict', verdictText(verdict)],
    ...optionalRow('', verdict.detail),
    ...optionalRow('', note === null ? null : `not shown to the client: ${note}`),
    ...Object.entries(identity).map(([name, value]): Row => ['', `${name}: ${value}`]),
  ];
  const lines = [...(steps.length === 0 ? [] : [...steps.map(lineOf), '']), ...results.map(lineOf)];
  return `${[`${method} ${target}`, '', ...lines].map(printable).join('\n')}\n`;
} // prettier-ignore

const LABEL_WIDTH = 12;
const TEXT_WIDTH = 46;

function lineOf([label, text, position = '']: Row): string {
  const line = position === '' ? text : `${text.padEnd(TEXT_WIDTH)}  ${position}`;
  return `  ${label.padEnd(LABEL_WIDTH)}${line}`.trimEnd();
}

function routeRows({ target, path, route, action, verdict }: Explanation): Row[] {
  const sent = target.split('?', 1)[0] ?? '';
  const rows: Row[] = path === null ? [] : [['target', path, path === sent ? 'unchanged' : `sent as ${sent}`]];
  if (route === null) return rows;
  rows.push(['route', routeText(route), route.place === null ? 'built-in endpoint' : describePosition(route.place)]);
  if (!isPreflight(verdict)) rows.push(['action', action ?? actionless(route.auth)]);
  return rows;
} // prettier-ignore

/** A preflight request has no credential, and its action is not checked. */
function isPreflight({ outcome }: Explanation['verdict']): boolean {
  return outcome === 'preflight' || outcome === 'preflight_refused';
}

function routeText({ path, methods }: { path: string; methods: readonly string[] | null }): string {
  const name = path === '*' ? 'default_route' : path;
  return methods === null ? name : `${name} [${methods.join(' ')}]`;
}

function actionless(auth: string): string {
  if (auth === 'none') return 'none: the route requires no credential';
  return auth === 'deny' ? 'none: the route refuses every request' : 'none';
}

function credentialRows({ credential, route, verdict }: Explanation): Row[] {
  if (isPreflight(verdict)) return [];
  if (credential === null) {
    const reason = verdict.endpoint !== null ? 'none: the endpoint requires none' : 'no valid one';
    return route?.auth === 'required' ? [['credential', reason]] : [];
  }
  const { kind, login, role, customer_id: customer, token_id: id, scopes, services, rate, addresses } = credential;
  return [
    ['credential', `${kind}${id === null || id === '' ? '' : ` ${id}`} of ${login} (${role}, customer ${customer})`],
    ...optionalRow('scopes', scopes && (scopes.join(' ') || 'none')),
    ...optionalRow('services', services.length > 0 ? services.join(', ') : null),
    ...optionalRow('rate', rate && `${rate}, not counted here`),
    ...optionalRow('addresses', addresses?.join(', ')),
  ];
} // prettier-ignore

function checkText(check: ExplainedCheck, { action, service, credential }: Explanation): string {
  const word = check.allowed ? 'allowed' : 'refused';
  if (check.check === 'service') {
    if (check.allowed && service === null) return 'allowed: the route has no service';
    if (service === null) return 'refused: the request names no service';
    return `${word}: ${service} is ${check.allowed ? '' : 'not '}in the token's list`;
  }
  const who = check.check === 'role' ? `role ${credential?.role}` : check.check === 'scope' ? 'scope' : 'limit';
  switch (check.effect) {
    case null:
      return `${word}: ${action} is not denied to tokens that are limited to services`;
    case 'allow':
      return `${word} by "${check.pattern}"`;
    case 'deny':
      return `${word}: denied by "${check.pattern}"`;
    case 'unknown':
      return `${word}: no ${who} of that name`;
    default:
      return `${word}: nothing allows ${action}`;
  }
} // prettier-ignore

function guardRows({ guarded }: Explanation): Row[] {
  if (guarded === undefined) return [];
  const { has_active_tokens: isActive, user_id: id } = guarded;
  const text = isActive ? `refused: the user ${id} has active tokens` : `allowed: the user ${id} has no active tokens`;
  return [['guard', text, positionText(guarded)]];
} // prettier-ignore

function positionText({ place }: Pick<ExplainedCheck, 'place'>): string {
  return place === null ? '' : describePosition(place);
}

function verdictText({ outcome, status, upstream, endpoint, allowed }: Explanation['verdict']): string {
  if (!allowed) return `${status} ${outcome}`;
  if (outcome === 'preflight') return '204, answered by the CORS rules of the route';
  if (endpoint === null) return `forwarded to the upstream ${upstream}`;
  return status === null
    ? `answered by ${endpoint}; the request body decides`
    : `${status}, answered by ${endpoint}`;
}
