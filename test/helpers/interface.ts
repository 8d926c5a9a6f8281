import type { Exchange, InterfaceCheck, InterfaceDocument } from './interface-check.js';

/** The public ports of the servers that run, with the text of the configuration that each started with. */
const servers = new Map<string, string>();
const checks = new Map<string, Promise<InterfaceCheck>>();

/** From now on what is sent to a server is held against the description of its interface. */
export function noteServer(url: string, config: string): void {
  servers.set(new URL(url).port, config);
}

/** The port may be somebody else's from now on. */
export function forgetServer(url: string): void {
  servers.delete(new URL(url).port);
}

/**
 * Holds an exchange with a built-in endpoint of a server against its description.
 *
 * @throws Error when the description does not allow it
 */
export async function checkExchange(base: string, exchange: Exchange): Promise<void> {
  const config = servers.get(new URL(base).port);
  if (config === undefined) return;
  let check = checks.get(config);
  if (check === undefined) checks.set(config, (check = createCheck(config)));
  let fault = (await check).faultOf(exchange);
  // A reload may have changed what is served since then; the server describes it as it is now.
  if (fault !== undefined) fault = (await createCheckOfNow(base)).faultOf(exchange);
  if (fault !== undefined) throw new Error(`${exchange.method} ${exchange.path} is not as described: ${fault}`);
} // prettier-ignore

async function createCheckOfNow(base: string): Promise<InterfaceCheck> {
  const { InterfaceCheck } = await import('./interface-check.js');
  const reply = await fetch(`${base}/_latchkey/openapi.json`);
  return new InterfaceCheck((await reply.json()) as InterfaceDocument);
}

async function createCheck(config: string): Promise<InterfaceCheck> {
  const { describedBy, InterfaceCheck } = await import('./interface-check.js');
  return new InterfaceCheck(describedBy(config));
}
