import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePort } from './free-port.mjs';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

const PROGRAM = fileURLToPath(new URL('oidc-provider.mjs', import.meta.url));

/** Starts a real provider for a Latchkey origin. Returns its part of the configuration. */
export async function startOidcProvider(t: Test, origin: string) {
  const port = await freePort();
  const at = `${origin}/_latchkey/oidc/sso`;
  const args = [PROGRAM, String(port), `${at}/callback`, `${at}/backchannel-logout`, `${origin}/_latchkey/`];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  t.teardown(async () => {
    child.kill();
    await ended;
  });
  await Promise.race([
    once(child.stdout, 'data'),
    ended.then(() => {
      throw new Error('the provider did not start');
    }),
  ]);
  return {
    name: 'sso',
    title: 'Company login',
    issuer: `http://localhost:${port}`,
    client_id: 'latchkey',
    client_secret: 'a secret of the client',
    scopes: ['openid', 'email', 'profile', 'groups'],
    customer_id: 'C1',
    roles: { claim: 'groups', map: { developers: 'engineer' } },
  };
} // prettier-ignore
