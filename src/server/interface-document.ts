import { endpointSettings, vendorNames } from '../config/derived.js';
import type { Config } from '../config/schema/config.js';
import type { InterfaceSettings } from '../endpoints/openapi/document.js';
import { type Content, jsonBody } from '../http/replies.js';
import { readVersion } from '../files/files.js';

export function interfaceSettings(
  config: Pick<Config, 'listen' | 'interface' | 'identity' | 'login'>,
): InterfaceSettings {
  const names = vendorNames(config.interface);
  return {
    endpoints: endpointSettings(config),
    keyName: names.key,
    otpName: names.otp,
    sessionCookie: names.sessionCookie,
    bearer: config.interface.bearer,
    version: readVersion(),
  };
}

/** The document is built on first use, and only once. */
export function createInterfaceDocument(config: Config): () => Promise<Content> {
  let made: Promise<Content> | undefined;
  return () => (made ??= makeDocument(interfaceSettings(config)));
}

async function makeDocument(settings: InterfaceSettings): Promise<Content> {
  const { interfaceDocument } = await import('../endpoints/openapi/document.js');
  const bytes = Buffer.from(jsonBody(interfaceDocument(settings)));
  return { type: 'application/json', bytes, immutable: false };
}
