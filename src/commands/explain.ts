import { isIP } from 'node:net';
import { loadConfig, type LoadedConfig } from '../config/load.js';
import { maskTokens, printable } from '../util/text.js';
import { type EpochMs, formatTime } from '../util/time.js';
import { isExpired } from '../domain/token.js';
import type { ExplainedCheck, Explanation } from '../gate/explain.js';
import { syntheticSubject } from '../gate/what-if.js';
import { type SimulatedRequest, Simulator } from '../pipeline/simulate.js';
import { describePosition } from '../policy/rules.js';
import type { Store } from '../store/store.js';
import type { TokenWithOwner } from '../store/token-store.js';
import type { NamedBy } from './terminal/options.js';
import { asJson, CommandFailed, print, WrongUsage } from './terminal/output.js';
import { readSecret } from './terminal/password.js';
import { findUser, hasStore, withStore } from './with-store.js';

export interface ExplainOptions extends NamedBy {
  readonly config: string;
  readonly method?: string;
  readonly path: string;
  readonly host?: string;
  readonly header?: readonly string[];
  readonly address?: string;
  readonly key?: string;
  readonly keyFile?: string;
  readonly jwt?: string;
  readonly user?: string;
  readonly scope?: string;
  readonly services?: string[];
  readonly anonymous?: true;
  readonly tokenId?: string;
  readonly json?: true;
}

/** Prints what the server would do with a request, and every rule that contributes to it. */
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
  const answer = async (store: Store | null, as: SimulatedRequest['as']) => {
    const explanation = await new Simulator(loaded, store).simulate({ ...request, as }, Date.now());
    print(options.json ? maskedJson(explanation) : renderExplanation(explanation));
  };
  if (options.tokenId !== undefined) {
    const { tokenId } = options;
    await withStore(loaded, async ({ store }) => {
      const explained = await explainToken(loaded, store, tokenId, request, Date.now());
      print(options.json ? maskedJson(explained.object) : explained.text);
    });
    return undefined;
  }
  if (options.anonymous && !hasStore(loaded)) return answer(null, 'anonymous');
  if (options.jwt !== undefined && !hasStore(loaded))
    return answer(null, { jwt: readSecret(options.jwt, 'the JWT') });
  return withStore(loaded, async ({ store }) => answer(store, await senderOf(options, store, loaded)));
}

function checkUsage(options: ExplainOptions): void {
  const { key, keyFile, jwt, user, anonymous, tokenId, address, scope, services } = options;
  if (!/^[/*]/.test(options.path) && !/^https?:/i.test(options.path))
    throw new WrongUsage(
      `explain: --path: expected a path that starts with "/"; write --path /${options.path}`,
    );
  if (address !== undefined && isIP(address) === 0)
    throw new WrongUsage('explain: --address: expected an IP address');
  if ([key, keyFile, jwt, user, anonymous, tokenId].every((who) => who === undefined)) {
    throw new WrongUsage(
      'explain: choose a credential: --key-file FILE, --key -, --jwt FILE, --token-id ID, --user LOGIN or --anonymous',
    );
  }
  if (user === undefined && (scope !== undefined || services !== undefined))
    throw new WrongUsage('explain: --scope and --services describe a token of --user LOGIN');
}

function maskedJson(value: unknown): string {
  return maskTokens(asJson(value));
}

async function senderOf(
  options: ExplainOptions,
  store: Store,
  loaded: LoadedConfig,
): Promise<SimulatedRequest['as']> {
  if (options.anonymous) return 'anonymous';
  if (options.jwt !== undefined) return { jwt: readSecret(options.jwt, 'the JWT') };
  const key = keyOf(options);
  if (key !== undefined) return { key };
  const { directory } = loaded.config;
  const hint = directory.file === null ? '' : '; is it in the directory file, and has that been applied?';
  const user = await findUser(store.directory, options.user ?? '', options, hint);
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

async function explainToken(
  loaded: LoadedConfig,
  store: Store,
  id: string,
  request: Omit<SimulatedRequest, 'as'>,
  now: EpochMs,
): Promise<{ readonly text: string; readonly object: object }> {
  const record = await tokenWithOwner(store, id);
  const explanation = await new Simulator(loaded, store).simulate({ ...request, as: { record } }, now);
  const token = tokenFacts(loaded, record, now);
  return {
    text: `${renderLabelled(rowsOf(token))}\n${renderExplanation(explanation)}`,
    object: { token, ...explanation },
  };
}

async function tokenWithOwner({ tokens, directory }: Store, id: string): Promise<TokenWithOwner> {
  const found = await tokens.get(id);
  const owner = found === undefined ? undefined : await directory.getUser(found.token.userId);
  if (found === undefined || owner === undefined)
    throw new CommandFailed(`no token has the id ${id} (latchkey token list shows them)`);
  return { token: found.token, owner };
}

/**
 * Returns the properties that a token is checked by now, with the limits that the configuration
 * sets.
 */
function tokenFacts({ config }: LoadedConfig, { token, owner }: TokenWithOwner, now: EpochMs) {
  const { rate, addresses } = config.tokens.limits;
  return {
    id: token.id,
    kind: token.kind,
    name: token.name,
    user_id: owner.id,
    login: owner.login,
    customer_id: owner.customerId,
    role: owner.role,
    owner_locked: owner.locked,
    scopes: token.scopes,
    services: token.services,
    rate: token.restrictions?.rate ?? rate,
    addresses: token.restrictions?.addresses ?? addresses,
    suspended: token.restrictions?.suspended === true,
    expires_at: token.expiresAt === null ? null : formatTime(token.expiresAt),
    expired: isExpired(token, now),
  };
}

function rowsOf(token: ReturnType<typeof tokenFacts>): [string, string][] {
  const { name } = token;
  const lasts =
    token.expires_at === null ? 'never expires' : `${token.expired ? 'expired' : 'expires'} ${token.expires_at}`;
  const rows: [string, string][] = [
    [token.kind === 'token' ? 'token' : 'legacy key', `${token.id}${name === '' ? '' : ` "${name}"`}`],
    ['owner', `${token.login} (${token.role}, customer ${token.customer_id})${token.owner_locked ? ', locked' : ''}`],
    ['state', `${token.suspended ? 'suspended, ' : ''}${lasts}`],
    ['scopes', token.scopes.join(' ') || 'none'],
    ['services', token.services.join(', ') || 'all'],
  ];
  if (token.rate !== null) rows.push(['rate', token.rate]);
  if (token.addresses !== null) rows.push(['addresses', token.addresses.join(', ')]);
  return rows;
} // prettier-ignore

const LABEL_WIDTH = 12;

/** Renders an explanation as text: one line per step, with the rule behind it. */
function renderExplanation(explanation: Explanation): string {
  const [lines, add] = startOf(explanation);
  addRoute(explanation, add);
  addJwt(explanation, add);
  addCredential(explanation, add);
  for (const check of explanation.checks) {
    add(CHECK_LABELS[check.check] ?? check.check, checkText(check, explanation), positionText(check));
  }
  addGuard(explanation, add);
  if (lines.at(-1) !== '') lines.push('');
  add('verdict', verdictText(explanation.verdict));
  if (explanation.verdict.detail !== null) add('', explanation.verdict.detail);
  if (explanation.note !== null) add('', `not shown to the client: ${explanation.note}`);
  for (const [name, value] of Object.entries(explanation.identity)) add('', `${name}: ${value}`);
  return shown(lines);
}

/** Renders one line per row, with its label. */
function renderLabelled(rows: readonly (readonly [label: string, text: string])[]): string {
  return shown(rows.map(([label, text]) => `  ${label.padEnd(LABEL_WIDTH)}${text}`.trimEnd()));
}

/** Joins lines, with unprintable characters escaped and tokens masked. */
function shown(lines: readonly string[]): string {
  return `${lines.map((line) => printable(maskTokens(line))).join('\n')}\n`;
}

type Add = (label: string, text: string, position?: string) => void;

function startOf({ method, target }: Explanation): [string[], Add] {
  const lines = [`${method} ${target}`, ''];
  const add: Add = (label, text, position = '') =>
    lines.push(
      `  ${label.padEnd(LABEL_WIDTH)}${position === '' ? text : `${text.padEnd(46)}  ${position}`}`.trimEnd(),
    );
  return [lines, add];
}

/** Adds the path, the route, and the routes that nearly matched. */
function addRoute(explanation: Explanation, add: Add): void {
  if (explanation.path !== null) {
    const sent = explanation.target.split('?', 1)[0] ?? '';
    add('target', explanation.path, explanation.path === sent ? 'unchanged' : `sent as ${sent}`);
  }
  const { route } = explanation;
  if (route !== null) {
    add(
      'route',
      routeText(route),
      route.place === null ? 'built-in endpoint' : describePosition(route.place),
    );
    for (const { why, ...miss } of explanation.near_misses) {
      const position = miss.place === null ? '' : ` (${describePosition(miss.place)})`;
      add('', `not ${routeText(miss)}: ${why}${position}`);
    }
    if (!isPreflight(explanation.verdict)) add('action', explanation.action ?? actionless(route.auth));
  }
}

/** A preflight request has no credential, and its action is not checked. */
function isPreflight({ outcome }: Explanation['verdict']): boolean {
  return outcome === 'preflight' || outcome === 'preflight_refused';
}

const CHECK_LABELS: Readonly<Record<string, string>> = {
  scope: 'scope',
  service_limited: 'limits',
  service: 'service',
  role: 'role',
};

function routeText({ path, methods }: { path: string; methods: readonly string[] | null }): string {
  const name = path === '*' ? 'default_route' : path;
  return methods === null ? name : `${name} [${methods.join(' ')}]`;
}

function actionless(auth: string): string {
  if (auth === 'none') return 'none: the route requires no credential';
  return auth === 'deny' ? 'none: the route refuses every request' : 'none';
}

/** Adds the issuer's subject that matches the JWT, and why the subjects before it do not. */
function addJwt({ jwt }: Explanation, add: Add): void {
  if (jwt === undefined) return;
  add('jwt', jwt.issuer === null ? 'of no configured issuer' : `of the issuer ${jwt.issuer}`);
  for (const { place, claims } of jwt.subjects) {
    const missed = claims.filter(({ fits }) => !fits);
    const shown = missed.length === 0 ? claims : missed;
    const words = shown.map(({ name, wanted, given }) => `${name} ${wantedText(wanted, given)}`);
    add('', `${missed.length === 0 ? 'fits' : 'does not fit'}: ${words.join('; ')}`, place);
    if (place === jwt.fits) return;
  }
}

function wantedText(wanted: string, given: string | readonly string[] | null): string {
  return given === null
    ? `is missing, wanted ${wanted}`
    : `is ${[given].flat().join(', ')}, wanted ${wanted}`;
}

function addCredential({ credential, route, verdict }: Explanation, add: Add): void {
  if (isPreflight(verdict)) return;
  if (credential === null) {
    if (route?.auth === 'required') {
      const settled = verdict.endpoint !== null ? 'none: the endpoint requires none' : 'no valid one';
      add('credential', settled);
    }
    return;
  }
  const { kind, login, role, customer_id: customer, token_id: id } = credential;
  add(
    'credential',
    `${kind}${id === null || id === '' ? '' : ` ${id}`} of ${login} (${role}, customer ${customer})`,
  );
  if (credential.scopes !== null) add('scopes', credential.scopes.join(' ') || 'none');
  if (credential.services.length > 0) add('services', credential.services.join(', '));
  if (credential.rate !== undefined) add('rate', `${credential.rate}, not counted here`);
  if (credential.addresses !== undefined) add('addresses', credential.addresses.join(', '));
}

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

function addGuard({ guarded }: Explanation, add: Add): void {
  if (guarded === undefined) return;
  const { has_active_tokens: isActive, user_id: id } = guarded;
  const text = isActive
    ? `refused: the user ${id} has active tokens`
    : `allowed: the user ${id} has no active tokens`;
  add('guard', text, positionText(guarded));
}

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
