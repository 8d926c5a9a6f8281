import type { CustomFetchOptions } from 'openid-client';
import { isKeySetUrl } from '../../config/schema/urls.js';
import { parseForeignJson } from '../../domain/json.js';

/** Longest answer of a provider that is read, in bytes. */
const MAX_ANSWER = 256 * 1024;
/** Milliseconds for one request, from the connection to the last byte. */
const TIMEOUT_MS = 5_000;

/** A provider did not answer, or its answer cannot be used. */
export class ProviderUnreachable extends Error {}

/**
 * Asks a provider. It follows no redirect, and reads so much and no longer.
 *
 * @throws ProviderUnreachable; RangeError, SyntaxError for an answer that must not be read
 */
export async function fetchFromProvider(url: string, asked: CustomFetchOptions): Promise<Response> {
  const { origin, pathname } = new URL(url);
  if (!isKeySetUrl(new URL(url)))
    throw new ProviderUnreachable(`${origin}${pathname} is not at an https:// URL`);
  const { status, type, text } = await ask(url, asked).catch((cause: unknown) => {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ProviderUnreachable(`${origin}${pathname}: ${reason}`, { cause });
  });
  if (status >= 500 || status === 429)
    throw new ProviderUnreachable(`${origin}${pathname} answered ${status}`);
  if (/json/i.test(type)) parseForeignJson(text);
  return new Response(hasContent(status) ? text : null, { status, headers: { 'Content-Type': type } });
}

async function ask(url: string, { method, headers, body }: CustomFetchOptions) {
  const { Agent, request } = await import('undici');
  const dispatcher = new Agent({ maxResponseSize: MAX_ANSWER, connect: { timeout: TIMEOUT_MS } });
  try {
    const answer = await request(url, {
      dispatcher,
      method: method as 'GET' | 'POST',
      headers,
      ...(body instanceof URLSearchParams ? { body: body.toString() } : {}),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const type = [answer.headers['content-type']].flat()[0] ?? '';
    return { status: answer.statusCode, type, text: await answer.body.text() };
  } finally {
    // The rest of the answer is not needed.
    void dispatcher.destroy();
  }
}

/** A `Response` takes no body for the others. */
function hasContent(status: number): boolean {
  return status !== 204 && status !== 205 && status !== 304;
}
