import { createHash, randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type JWTPayload, SignJWT } from 'jose';
import { serveHttp } from './http.js';
import { newPair, type Pair } from './key-server.js';
import { rememberSecret } from './secrets.js';

/** Settings of a provider at an address where nobody answers. */
export const SILENT_PROVIDER = {
  name: 'sso',
  title: 'Log in',
  issuer: 'http://127.0.0.1:1',
  client_id: 'latchkey',
  client_secret: null,
  customer_id: 'C1',
  roles: { claim: 'groups', default: 'user' },
};

/** The authorization request that a code was issued for. */
interface Grant {
  readonly nonce: string | null;
  readonly challenge: string | null;
  readonly redirectUri: string | null;
  readonly fresh: boolean;
}

/** Replaces the correct response; undefined keeps it. */
type Answer = { readonly status?: number; readonly json?: unknown } | undefined;

const CLIENT = 'latchkey';

/**
 * An OpenID Connect provider that lies as a test needs. It has no login page: {@link authorize}
 * stands in for the browser.
 */
export class IdentityProvider {
  readonly url: string;
  /** Differs from the URL at providers that are reached at another address. */
  issuer: string;
  readonly #codes = new Map<string, Grant>();
  pair: Pair;
  published: readonly Pair[];
  /** Claims in ID tokens, in addition to those of the login. */
  claims: Record<string, unknown> = {};
  /** Claims of the UserInfo endpoint. */
  userInfo: object = {};
  metadata: object = {};
  away = false;
  /** Responses wait for this promise. */
  held: Promise<void> | undefined;
  /** Replacements for the correct responses, by path. */
  answers: Partial<Record<string, Answer>> = {};
  /** Creates the ID token instead of the default signing. */
  idToken: ((claims: JWTPayload) => string | Promise<string>) | undefined;
  /** How its client must authenticate. */
  authentication: 'basic' | 'post' | 'none' | 'signed' = 'basic';
  /** The JWT with which the client authenticated, if it has to sign. */
  assertion = '';
  /** Whether ID tokens contain the hash of their access token. */
  namesAccessToken = false;
  /** Whether a code can be redeemed more than once. */
  reusesCodes = false;
  readonly asked: string[] = [];

  private constructor(url: string, pair: Pair) {
    this.url = url;
    this.issuer = url;
    this.pair = pair;
    this.published = [pair];
  }

  static async start(t: { teardown: (fn: () => void) => void }, algorithm = 'RS256'): Promise<IdentityProvider> {
    let answer = (_req: IncomingMessage, res: ServerResponse): unknown => res.writeHead(503).end();
    const { url } = await serveHttp(t, (req, res) => void answer(req, res));
    const provider = new IdentityProvider(url, await newPair('one', algorithm));
    answer = (req, res) => provider.#answer(req, res);
    return provider;
  } // prettier-ignore

  /** Restores the initial state. */
  tellTruth(): void {
    Object.assign(this, { claims: {}, userInfo: {}, metadata: {}, answers: {}, away: false });
    Object.assign(this, { idToken: undefined, reusesCodes: false, held: undefined, published: [this.pair] });
  }

  /**
   * Returns the parameters of the redirect back to Latchkey.
   * @param location the authorization URL that the browser was sent to
   */
  authorize(location: string): URLSearchParams {
    const { searchParams: asked } = new URL(location);
    const code = randomUUID();
    rememberSecret(code);
    this.#codes.set(code, {
      nonce: asked.get('nonce'),
      challenge: asked.get('code_challenge'),
      redirectUri: asked.get('redirect_uri'),
      fresh: asked.get('max_age') === '0',
    });
    return new URLSearchParams({ code, state: asked.get('state') ?? '', iss: this.issuer });
  }

  /** Signs claims as this provider. */
  sign(claims: JWTPayload, header: object = {}, pair = this.pair): Promise<string> {
    return new SignJWT(claims)
      .setProtectedHeader({ alg: pair.algorithm, kid: pair.kid, ...header })
      .sign(pair.privateKey);
  }

  /** Signs a logout token that is valid except for the given claims. */
  logoutToken(claims: Record<string, unknown>): Promise<string> {
    const events = { 'http://schemas.openid.net/event/backchannel-logout': {} };
    const now = Math.floor(Date.now() / 1000);
    return this.sign(
      { iss: this.url, aud: CLIENT, iat: now, exp: now + 60, jti: randomUUID(), events, ...claims },
      { typ: 'logout+jwt' },
    );
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const path = (req.url ?? '').split('?')[0] ?? '';
    this.asked.push(path);
    await this.held;
    if (this.away) {
      req.socket.destroy();
      return;
    }
    const { status = 200, json } = this.answers[path] ?? (await this.#right(path, req));
    res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(json));
  }

  async #right(path: string, req: IncomingMessage): Promise<NonNullable<Answer>> {
    switch (path) {
      case '/.well-known/openid-configuration':
        return { json: this.#configuration() };
      case '/jwks':
        return { json: { keys: this.published.map(({ jwk }) => jwk) } };
      case '/token':
        return this.#token(new URLSearchParams(await textOf(req)), req.headers.authorization);
      case '/userinfo':
        return { json: { sub: this.claims.sub ?? 'ann', ...this.userInfo } };
      default:
        return { status: 404, json: {} };
    }
  }

  #configuration() {
    return {
      issuer: this.issuer,
      authorization_endpoint: `${this.url}/authorize`,
      token_endpoint: `${this.url}/token`,
      userinfo_endpoint: `${this.url}/userinfo`,
      end_session_endpoint: `${this.url}/logout`,
      jwks_uri: `${this.url}/jwks`,
      authorization_response_iss_parameter_supported: true,
      id_token_signing_alg_values_supported: ['RS256', 'ES256', 'HS256', 'none'],
      ...this.metadata,
    };
  }

  #isClient(sent: URLSearchParams, authorization: string): boolean {
    const [id, secret] = [sent.get('client_id'), sent.get('client_secret')];
    switch (this.authentication) {
      case 'basic':
        return authorization === `Basic ${Buffer.from(`${CLIENT}:secret`).toString('base64')}`;
      case 'post':
        return authorization === '' && id === CLIENT && secret === 'secret';
      case 'signed':
        this.assertion = sent.get('client_assertion') ?? '';
        return authorization === '' && secret === null && this.assertion !== '';
      case 'none':
        return authorization === '' && id === CLIENT && secret === null;
    }
  }

  async #token(sent: URLSearchParams, authorization = ''): Promise<NonNullable<Answer>> {
    const code = sent.get('code') ?? '';
    const grant = this.#codes.get(code);
    const challenge = createHash('sha256').update(sent.get('code_verifier') ?? '').digest('base64url');
    const isRight =
      this.#isClient(sent, authorization) &&
      grant?.challenge === challenge &&
      grant.redirectUri === sent.get('redirect_uri');
    if (!isRight) return { status: 400, json: { error: 'invalid_grant' } };
    if (!this.reusesCodes) this.#codes.delete(code);
    const now = Math.floor(Date.now() / 1000);
    const claims = {
      iss: this.issuer,
      aud: CLIENT,
      sub: 'ann',
      iat: now,
      exp: now + 60,
      nonce: grant.nonce ?? undefined,
      email: 'ann@idp.example',
      email_verified: true,
      name: 'Ann',
      groups: ['developers'],
      sid: 'sid-1',
      ...(grant.fresh ? { auth_time: now } : {}),
      ...this.claims,
    } as JWTPayload;
    const [accessToken, refreshToken] = [randomUUID(), randomUUID()];
    if (this.namesAccessToken) {
      const digest = createHash(`sha${/\d+/.exec(this.pair.algorithm)?.[0] ?? '512'}`).update(accessToken).digest();
      claims['at_hash'] = digest.subarray(0, digest.length / 2).toString('base64url');
    }
    const idToken = await (this.idToken?.(claims) ?? this.sign(claims));
    for (const secret of [accessToken, refreshToken, idToken]) rememberSecret(secret);
    return { json: { access_token: accessToken, refresh_token: refreshToken, token_type: 'Bearer', expires_in: 60, id_token: idToken } };
  } // prettier-ignore
}

async function textOf(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
