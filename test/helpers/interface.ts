import type { Exchange, InterfaceCheck, InterfaceDocument } from './interface-check.js';

/** The configuration text of each running server, by public port. */
const servers = new Map<string, string>();
const checks = new Map<string, Promise<InterfaceCheck>>();

/**
 * Registers a server: from now on, exchanges with it are validated against its OpenAPI document.
 */
export function noteServer(url: string, config: string): void {
  servers.set(new URL(url).port, config);
}

/** Unregisters a server. Another process may reuse its port. */
export function forgetServer(url: string): void {
  servers.delete(new URL(url).port);
}

/**
 * Validates an exchange with a built-in endpoint of a server against its OpenAPI document.
 *
 * @throws Error if the document does not allow it
 */
export async function checkExchange(base: string, exchange: Exchange): Promise<void> {
  const config = servers.get(new URL(base).port);
  if (config === undefined) return;
  let check = checks.get(config);
  if (check === undefined) checks.set(config, (check = createCheck(config)));
  let fault = (await check).faultOf(exchange);
  // A reload may have changed the endpoints; the server's own document is current.
  if (fault !== undefined) fault = (await createCheckOfNow(base)).faultOf(exchange);
  if (fault !== undefined) throw new Error(`${exchange.method} ${exchange.path} is not as described: ${fault}`);
} // prettier-ignore

async function createCheckOfNow(base: string): Promise<InterfaceCheck> {
  const { InterfaceCheck } = await import('./interface-check.js');
  const reply = await fetch(`${base}/_latchkey/openapi.json`);
  return new InterfaceCheck((await reply.json()) as InterfaceDocument);
}

async function createCheck(config: string): Promise<InterfaceCheck> {
  const { checkFor } = await import('./interface-check.js');
  return checkFor(config);
}
