// The HTTP clients of a run, one for each sidecar.
import { Pool } from 'undici';

/** @typedef {{ status: number | null, text: string, cookie: string, error?: string }} Reply */
/**
 * @typedef {{ method: 'GET' | 'POST' | 'DELETE' | 'PATCH', headers?: Record<string, string>, form?:
 *   Record<string, string>, json?: object }} Request
 */

/** Time limit of a request, in milliseconds. */
const TIMEOUT_MS = 6_000;

/** Sends requests to sidecars. */
export class Clients {
  #pools;

  /** @param {string[]} urls */
  constructor(urls) {
    this.#pools = urls.map((url) => new Pool(url, { connections: 256 }));
  }

  /**
   * @param {number} sidecar
   * @param {string} path
   * @param {Request} request
   * @returns {Promise<Reply>}
   */
  async send(sidecar, path, { method, headers, form, json }) {
    const [type, body] =
      json === undefined
        ? ['application/x-www-form-urlencoded', form && new URLSearchParams(form).toString()]
        : ['application/json', JSON.stringify(json)];
    try {
      const reply = await this.#pools[sidecar].request({
        path,
        method,
        headers: { ...headers, ...(body === undefined ? {} : { 'Content-Type': type }) },
        body: body ?? null,
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      const text = await reply.body.text();
      const cookie = String(reply.headers['set-cookie'] ?? '').split(';', 1)[0];
      return { status: reply.statusCode, text, cookie };
    } catch (error) {
      const { code, name } = /** @type {NodeJS.ErrnoException} */ (error);
      return { status: null, text: '', cookie: '', error: typeof code === 'string' ? code : name };
    }
  }

  async close() {
    await Promise.all(this.#pools.map((pool) => pool.destroy()));
  }
}
