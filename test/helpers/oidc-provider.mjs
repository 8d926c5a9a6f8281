// Runs a real OpenID Connect provider (the package oidc-provider). Anyone may log in with any
// password. Users whose name begins with "dev" are in the group "developers".
//
//   node oidc-provider.mjs PORT REDIRECT_URI BACKCHANNEL_LOGOUT_URI PAGE
import { Provider } from 'oidc-provider';

const [port, redirectUri = '', backchannelLogoutUri = '', page = ''] = process.argv.slice(2);

const provider = new Provider(`http://localhost:${port}`, {
  clients: [
    {
      client_id: 'latchkey',
      client_secret: 'a secret of the client',
      redirect_uris: [redirectUri],
      post_logout_redirect_uris: [page],
      backchannel_logout_uri: backchannelLogoutUri,
      backchannel_logout_session_required: true,
    },
  ],
  claims: { email: ['email', 'email_verified'], profile: ['name'], groups: ['groups'] },
  scopes: ['openid', 'email', 'profile', 'groups'],
  pkce: { required: () => true },
  features: { backchannelLogout: { enabled: true } },
  // By default it refuses to contact loopback addresses.
  fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined }),
  cookies: { keys: ['a key of the cookies'] },
  findAccount: (_context, sub) => ({
    accountId: sub,
    claims: () => ({
      sub,
      email: `${sub}@idp.example`,
      email_verified: true,
      name: sub,
      groups: sub.startsWith('dev') ? ['developers'] : ['guests'],
    }),
  }),
});
provider.on('backchannel.error', (_context, error) => process.stderr.write(`${error.stack}\n`));
provider.listen(Number(port), 'localhost', () => process.stdout.write('ready\n'));
