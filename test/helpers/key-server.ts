import type { RequestListener, Server } from 'node:http';
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';
import { serveHttp } from './http.js';

/** How a key server answers. */
export type Behaviour =
  'keys' | 'error' | 'hang' | 'redirect' | 'html' | 'oversized' | 'no keys' | 'another issuer';

/** An issuer's key pair, with the key id for its JWTs. */
export interface Pair {
  readonly kid: string;
  readonly algorithm: string;
  readonly jwk: JWK;
  readonly privateKey: CryptoKey;
}

export async function newPair(kid: string, algorithm = 'ES256'): Promise<Pair> {
  const { publicKey, privateKey } = await generateKeyPair(algorithm, { extractable: true });
  return {
    kid,
    algorithm,
    privateKey,
    jwk: { ...(await exportJWK(publicKey)), kid, alg: algorithm, use: 'sig' },
  };
}

/** An issuer of JWTs that publishes its keys. A test can make it rotate them, fail, hang or lie. */
export class KeyServer {
  readonly url: string;
  readonly server: Server;
  behaviour: Behaviour = 'keys';
  published: readonly Pair[];
  /** Requested paths. */
  readonly asked: string[] = [];

  private constructor(url: string, server: Server, pair: Pair) {
    this.url = url;
    this.server = server;
    this.published = [pair];
  }

  static async start(t: { teardown: (fn: () => void) => void }, pair: Pair): Promise<KeyServer> {
    let answer: RequestListener = (_req, res) => res.writeHead(503).end();
    const { url, server } = await serveHttp(t, (req, res) => answer(req, res));
    const keyServer = new KeyServer(url, server, pair);
    answer = keyServer.#answer;
    return keyServer;
  }

  readonly #answer: RequestListener = (req, res) => {
    const path = req.url ?? '';
    this.asked.push(path);
    const keys = JSON.stringify({ keys: this.published.map(({ jwk }) => jwk) });
    switch (this.behaviour) {
      case 'hang':
        return;
      case 'error':
        res.writeHead(500).end();
        return;
      case 'redirect':
        res.writeHead(302, { Location: `${this.url}/elsewhere` }).end(keys);
        return;
      case 'html':
        res.end('<!doctype html><title>Log in</title>');
        return;
      case 'oversized':
        res.end(JSON.stringify({ keys: this.published.map(({ jwk }) => jwk), pad: 'x'.repeat(300_000) }));
        return;
      case 'no keys':
        res.end('{"keys":"none"}');
        return;
      default: {
        const issuer = this.behaviour === 'another issuer' ? 'https://another.example' : this.url;
        const isDiscovery = path === '/.well-known/openid-configuration';
        res.end(isDiscovery ? JSON.stringify({ issuer, jwks_uri: `${this.url}/jwks` }) : keys);
      }
    }
  };

  /**
   * Signs claims as this issuer. Unless overridden, the audience is `latchkey` and the token lasts
   * a minute.
   */
  sign(claims: JWTPayload, pair = this.published[0] as Pair, header: object = {}): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    return new SignJWT({
      iss: this.url,
      aud: 'latchkey',
      sub: 'repo:acme/x',
      iat: now,
      exp: now + 60,
      ...claims,
    })
      .setProtectedHeader({ alg: pair.algorithm, kid: pair.kid, ...header })
      .sign(pair.privateKey);
  }
}
