import type { LoadedConfig } from '../config/load.js';
import { type EpochMs, formatTime } from '../domain/time.js';
import { isExpired } from '../domain/token.js';
import { type SimulatedRequest, Simulator } from '../pipeline/simulate.js';
import type { Store } from '../store/store.js';
import type { TokenWithOwner } from '../store/token-store.js';
import { renderExplanation, renderLabelled } from './render-explanation.js';
import { CommandFailed } from './terminal/failure.js';

export async function explainToken(
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
