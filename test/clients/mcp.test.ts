import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { SignJWT } from 'jose';
import t from 'tap';
import { configurationsOf, PAGE } from '../docs/in-front-of.js';
import { blocksOf } from '../docs/markdown.js';
import { startFixture } from '../helpers/fixture.js';
import { freePort } from '../helpers/free-port.mjs';
import { serveHttp } from '../helpers/http.js';
import { newPair } from '../helpers/key-server.js';
import { needNpmPackages } from '../helpers/packages.mjs';

/* The official SDK of the Model Context Protocol: its server behind Latchkey, and its client. */

const sdk = join(needNpmPackages(import.meta.dirname), 'node_modules/@modelcontextprotocol/sdk/dist/esm');
// oxlint-disable-next-line typescript/no-explicit-any -- it is installed when the test runs
const load = (file: string): Promise<any> => import(pathToFileURL(join(sdk, file)).href);
const [{ McpServer }, { StreamableHTTPServerTransport }, { Client }, { StreamableHTTPClientTransport }] =
  await Promise.all([
    load('server/mcp.js'),
    load('server/streamableHttp.js'),
    load('client/index.js'),
    load('client/streamableHttp.js'),
  ]);

const asked: { user: unknown; authorization: unknown }[] = [];
const { url: api } = await serveHttp(t, (req, res) => void serveMcp(req, res));

async function serveMcp(req: IncomingMessage, res: ServerResponse): Promise<void> {
  asked.push({ user: req.headers['x-auth-user-id'], authorization: req.headers.authorization });
  const server = new McpServer({ name: 'tiny', version: '1' });
  server.registerTool('whoami', {}, () => ({
    content: [{ type: 'text', text: String(req.headers['x-auth-user-id']) }],
  }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  res.on('close', () => transport.close());
  await server.connect(transport);
  await transport.handleRequest(req, res);
}

const pair = await newPair('one');
const port = await freePort();
const resource = `http://127.0.0.1:${port}/mcp`;
const issuer = await startIssuer();
const here = (text: string) =>
  text.replaceAll('https://mcp.example.com/mcp', resource).replaceAll('https://login.example.com', issuer);
const [plain, withLogin] = JSON.parse(
  here(JSON.stringify(configurationsOf('An MCP server', api))),
) as object[];
const { token } = await startFixture(t, { ...plain, ...withLogin, listen: { host: '127.0.0.1', port } });

/** Starts an authorization server with the endpoints that the SDK needs. */
async function startIssuer(): Promise<string> {
  const { url } = await serveHttp(t, (req, res) => {
    const json = (value: object) => res.setHeader('Content-Type', 'application/json').end(JSON.stringify(value));
    const path = req.url?.split('?')[0];
    if (path === '/keys') json({ keys: [pair.jwk] });
    else if (path === '/register') json({ client_id: 'mcp', redirect_uris: ['http://127.0.0.1/callback'] });
    else if (path === '/token') {
      const claims = new SignJWT({ sub: 'ada' }).setProtectedHeader({ alg: 'ES256', kid: 'one' });
      const signed = claims.setIssuer(url).setAudience(resource).setIssuedAt().setExpirationTime('1m').sign(pair.privateKey);
      void signed.then((jwt) => json({ access_token: jwt, token_type: 'Bearer' }));
    } else if (path === '/.well-known/oauth-authorization-server' || path === '/.well-known/openid-configuration')
      json({
        issuer: url, jwks_uri: `${url}/keys`, authorization_endpoint: `${url}/authorize`, token_endpoint: `${url}/token`, registration_endpoint: `${url}/register`,
        response_types_supported: ['code'], code_challenge_methods_supported: ['S256'],
      });
    else res.writeHead(404).end();
  });
  return url;
} // prettier-ignore

/** Calls the tool through a transport. */
async function whoami(
  t: { teardown: (fn: () => Promise<void>) => void },
  transport: object,
): Promise<unknown> {
  const client = new Client({ name: 'test', version: '1' });
  t.teardown(() => client.close());
  await client.connect(transport);
  return (await client.callTool({ name: 'whoami' })).content[0].text;
}

t.test('with a token', async (t) => {
  const [settings] = blocksOf(PAGE, 'An MCP server').filter(({ kind }) => kind === 'json');
  const { mcpServers } = JSON.parse(here(settings?.text ?? '').replace('lk...', await token('engineer'))) as {
    mcpServers: { tools: { url: string; headers: object } };
  };
  const { url, headers } = mcpServers.tools;
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  t.equal(await whoami(t, transport), 'engineer');
});

t.test('with a login at the issuer, which the client finds from a 401', async (t) => {
  const kept: Record<string, unknown> = {};
  const authProvider = {
    redirectUrl: 'http://127.0.0.1/callback',
    clientMetadata: { redirect_uris: ['http://127.0.0.1/callback'], client_name: 'test' },
    clientInformation: () => kept['client'],
    saveClientInformation: (client: unknown) => void (kept['client'] = client),
    tokens: () => kept['tokens'],
    saveTokens: (tokens: unknown) => void (kept['tokens'] = tokens),
    codeVerifier: () => kept['verifier'],
    saveCodeVerifier: (verifier: string) => void (kept['verifier'] = verifier),
    redirectToAuthorization: (to: URL) => void (kept['redirect'] = to),
  };
  const transport = new StreamableHTTPClientTransport(new URL(resource), { authProvider });
  await t.rejects(whoami(t, transport), { name: 'Error', message: /Unauthorized/ });
  const redirect = kept['redirect'] as URL;
  t.equal(redirect.origin, issuer);
  t.match(Object.fromEntries(redirect.searchParams), { resource });
  await transport.finishAuth('code');
  const again = new StreamableHTTPClientTransport(new URL(resource), { authProvider });
  t.match(await whoami(t, again), /./, 'with the JWT');
});

t.test('what the upstream received', async (t) => {
  t.ok(asked.length > 3);
  t.same(asked.filter(({ user, authorization }) => user === undefined || authorization !== undefined), []);
}); // prettier-ignore
