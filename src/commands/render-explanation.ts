import type { ExplainedCheck, Explanation } from '../gate/explain.js';
import { describePosition } from '../policy/rules.js';
import { maskTokens } from '../domain/mask-tokens.js';
import { printable } from '../observe/printable.js';

const LABEL_WIDTH = 12;

/** Renders an explanation as text: one line per step, with the rule behind it. */
export function renderExplanation(explanation: Explanation): string {
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
export function renderLabelled(rows: readonly (readonly [label: string, text: string])[]): string {
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
      const settled = verdict.endpoint !== null ? 'none: the endpoint checks a password' : 'no valid one';
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
