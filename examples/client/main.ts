// Logs in, creates a token, uses it, lists the user's tokens and revokes the new one. latchkey.d.ts
// has the types of all paths, bodies and responses, generated from the description that Latchkey
// serves.
import createClient from 'openapi-fetch';
import type { paths } from './latchkey.js';

const {
  LATCHKEY_URL = 'http://127.0.0.1:8080',
  LATCHKEY_LOGIN: login = '',
  LATCHKEY_PASSWORD: password = '',
} = process.env;

/** The header that carries a token: `securitySchemes.token.name` in the description. */
const KEY = 'Service-Key';

const latchkey = createClient<paths>({ baseUrl: LATCHKEY_URL });

/** An error response. `code` is set for errors of a login or of a token's parameters. */
interface Problem {
  readonly msg: string;
  readonly detail?: string;
  readonly code?: string;
}

/** Ends the program after a refusal that it cannot handle. */
function giveUp({ msg, detail }: Problem, { status, headers }: Response): never {
  throw new Error(`${status} ${msg}: ${detail ?? ''} (request ${headers.get('X-Request-Id')})`);
}

async function logIn(): Promise<{ Cookie: string }> {
  const { data, error, response } = await latchkey.POST('/login', { body: { user: login, password } });
  if (error !== undefined) giveUp(error, response);
  console.log(`logged in as ${data.user.name}, ${data.user.role} of ${data.customer.name}`);
  const [cookie = ''] = response.headers.getSetCookie();
  return { Cookie: cookie.split(';', 1)[0] ?? '' };
}

/** Creates a token; returns null if the scope does not exist. */
async function createToken(scope: string) {
  const { data, error, response } = await latchkey.POST('/tokens', {
    body: { username: login, password, name: 'example', scope },
  });
  if (error === undefined) return data;
  // Error codes have types too: an unknown code here does not compile.
  if ('code' in error && error.code === 'invalid_scope') {
    console.log(`refused: ${error.detail}`);
    return null;
  }
  return giveUp(error, response);
}

const session = await logIn();
await createToken('everything');
const token = (await createToken('global:read')) ?? process.exit(1);
console.log(`created token ${token.name} with the scope ${token.scope}`);

const self = await latchkey.GET('/tokens/self', { headers: { [KEY]: token.access_token } });
if (self.error !== undefined) giveUp(self.error, self.response);
console.log(`used it at ${self.data.last_seen_at} from ${self.data.ip}`);

const list = await latchkey.GET('/tokens', { headers: session });
if (list.error !== undefined) giveUp(list.error, list.response);
console.log(
  `${list.data.filter(({ id }) => id === token.id).length} of ${list.data.length} tokens is the new one`,
);

const revoked = await latchkey.DELETE('/tokens/{id}', {
  headers: session,
  params: { path: { id: token.id } },
});
if (revoked.error !== undefined) giveUp(revoked.error, revoked.response);

const after = await latchkey.GET('/tokens/self', { headers: { [KEY]: token.access_token } });
console.log(`revoked it: ${after.response.status} ${after.error?.msg ?? ''}`);

await latchkey.POST('/logout', { headers: session });
