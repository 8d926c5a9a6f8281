import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Webhook } from 'standardwebhooks';
import { listenOnLoopback } from './http.js';
import { rememberSecret } from './secrets.js';

/** A received webhook with a valid signature. */
export interface ReceivedWebhook {
  readonly id: string;
  readonly type: string;
  /** The id of the token or user. */
  readonly about: string;
  readonly data: Record<string, unknown>;
  readonly timestamp: string;
  readonly at: number;
}

/** How the receiver handles a webhook, which may be not to respond. */
export type Behaviour = (res: ServerResponse, received: ReceivedWebhook) => unknown;

/** Creates a secret of 32 random bytes. */
export function newWebhookSecret(): string {
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  rememberSecret(secret);
  return secret;
}

/** A webhook receiver that refuses requests without a valid signature. */
export class WebhookReceiver {
  readonly secret = newWebhookSecret();
  readonly received: ReceivedWebhook[] = [];
  /** Faults found in requests. */
  readonly faults: string[] = [];
  behaviour: Behaviour = (res) => res.writeHead(204).end();
  readonly #server: Server;
  url = '';

  private constructor() {
    this.#server = createServer((req, res) => void this.#receive(req, res));
  }

  static async start(t: { teardown: (fn: () => void) => void }): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver();
    receiver.url = `${await listenOnLoopback(receiver.#server)}/hook`;
    t.teardown(() => {
      receiver.#server.close();
      receiver.#server.closeAllConnections();
    });
    return receiver;
  }

  /** An entry for the configuration. */
  settings(more: object = {}): object {
    return { url: this.url, secret: this.secret, allow_private: true, ...more };
  }

  /** The events received for one token or user, in order: `created`, `revoked`. */
  of(about: string): string[] {
    return this.received
      .filter((each) => each.about === about)
      .map(({ type }) => type.replace(/^token\./, ''));
  }

  async #receive(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of req) chunks.push(chunk as Buffer);
    } catch {
      return;
    }
    const body = Buffer.concat(chunks).toString();
    try {
      const event = verify(this.secret, req.headers as Record<string, string>, body);
      this.received.push(event);
      await this.behaviour(res, event);
    } catch (error) {
      this.faults.push((error as Error).message);
      res.writeHead(500).end();
    }
  }
}

/**
 * Verifies a webhook with the library and with an independent computation.
 * @throws Error
 */
export function verify(secret: string, headers: Record<string, string>, body: string): ReceivedWebhook {
  const event = new Webhook(secret).verify(body, headers) as {
    type: string;
    timestamp: string;
    data: Record<string, unknown>;
  };
  const {
    'webhook-id': id = '',
    'webhook-timestamp': at = '',
    'webhook-signature': signature = '',
  } = headers;
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const expected = createHmac('sha256', key).update(`${id}.${at}.${body}`).digest();
  const signatures = signature.split(' ').map((each) => Buffer.from(each.replace(/^v1,/, ''), 'base64'));
  if (!signatures.some((each) => each.length === expected.length && timingSafeEqual(each, expected)))
    throw new Error('no signature is that of HMAC-SHA256');
  const about = event.data['token_id'] ?? event.data['user_id'];
  return { id, ...event, about: String(about), at: performance.now() };
}
