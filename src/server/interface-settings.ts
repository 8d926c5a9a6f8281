import { endpointSettings, vendorNames } from '../config/derived.js';
import type { Config } from '../config/schema/config.js';
import type { InterfaceSettings } from '../endpoints/openapi/document.js';
import { readVersion } from '../observe/version.js';

/** What the description of the interface depends on, as a configuration has it. */
export function interfaceSettings(config: Pick<Config, 'interface' | 'identity'>): InterfaceSettings {
  const names = vendorNames(config.interface);
  return {
    endpoints: endpointSettings(config),
    keyName: names.key,
    otpName: names.otp,
    sessionCookie: names.sessionCookie,
    version: readVersion(),
  };
}
