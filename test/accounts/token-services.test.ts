import t from 'tap';
import { planDeclaredTokens } from '../../src/accounts/declared-records.js';
import { type IssuerSettings, subjectOf } from '../../src/accounts/jwt/subjects.js';
import { Tokens } from '../../src/accounts/tokens.js';
import { syntheticToken } from '../../src/gate/what-if.js';
import type { Token } from '../../src/domain/token.js';
import type { User } from '../../src/domain/user.js';
import type { Store } from '../../src/store/core/store.js';

/* A list of services means the same restriction wherever it is written. */

type Restriction = Pick<Token, 'services' | 'serviceId'>;

const settings = { max_per_user: null, max_stored_per_user: 1_000, max_stored_per_customer: 100_000, max_lifetime: null }; // prettier-ignore
const user = { id: 'U1', customerId: 'C1' } as User;

/** What POST /tokens stores. */
async function created(services: readonly string[]): Promise<Restriction | undefined> {
  const kept: Token[] = [];
  const store = {
    directory: { listServices: async () => [] },
    tokens: {
      customerHasAtLeast: () => false,
      create: async (token: Token) => {
        kept.push(token);
        return 'created';
      },
    },
  } as unknown as Store;
  const tokens = new Tokens(store, { pending: () => undefined }, settings, ['global']);
  await tokens.create(
    user,
    { services, name: undefined, scope: undefined, expiresAt: undefined },
    Date.now(),
  );
  return kept[0];
}

async function declared(services: string[]): Promise<Restriction | undefined> {
  const entry = {
    id: 'T1',
    user_id: 'U1',
    name: '',
    secret_sha256: 'ab'.repeat(32),
    scope: ['global'],
    suspended: false,
  };
  const directory = { customers: [], services: [], users: [], tokens: [{ ...entry, ...(services.length === 0 ? {} : { services }) }] }; // prettier-ignore
  return (await planDeclaredTokens(directory, new Map(), { filterRevoked: async () => [] }, Date.now()))
    .put[0];
}

function ofJwt(services: readonly string[]): Restriction | undefined {
  const rule = { claims: {}, customer_id: 'C1', role: 'user', scope: ['global'], services };
  const issuer = { name: 'ci', clock_skew: 0, subjects: [rule] } as unknown as IssuerSettings;
  return subjectOf(issuer, { sub: 'a', exp: 1 }, '', 0, [])?.token;
}

/** Every list of up to four of three services. */
function lists(): string[][] {
  const all: string[][] = [[]];
  for (let from = 0, length = 1; length <= 4; length++) {
    const until = all.length;
    for (; from < until; from++)
      for (const each of ['S1', 'S2', 'S3']) all.push([...(all[from] as string[]), each]);
  }
  return all;
}

t.test('repeated services count once, and the last of the others is the service id', async (t) => {
  for (const given of lists()) {
    const services = given.filter((each, i) => given.indexOf(each) === i);
    const wanted = { services, serviceId: services.at(-1) ?? null };
    const found = [await created(given), await declared(given), ofJwt(given), syntheticToken(user, 'global', given).token];
    for (const { services, serviceId } of found.map((each) => each ?? { services: ['none'], serviceId: null }))
      t.strictSame({ services, serviceId }, wanted, given.join());
  }
  t.match(await declared(['S1', 'S2', 'S1']), { services: ['S1', 'S2'], serviceId: 'S2' });
}); // prettier-ignore
