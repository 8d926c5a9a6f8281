import type { Config } from '../config/schema/config.js';

/**
 * Loads what requests may need later. Node.js repeats the error of a failed first load until the process
 * ends, and files may be replaced by an upgrade meanwhile.
 * @param serves whether this process serves requests; if not, it may still send webhooks
 */
export async function loadModules(
  config: Pick<Config, 'directory' | 'jwt_issuers' | 'login' | 'webhooks'>,
  serves = true,
): Promise<void> {
  const sendsWebhooks = config.webhooks.length > 0;
  const delivers = sendsWebhooks ? [import('../webhooks/deliver.js'), import('undici')] : [];
  if (!serves) return void (await Promise.all(delivers));
  const usesProviders = config.login.oidc.length > 0;
  const usesIssuers = config.jwt_issuers.length > 0;
  const loads: Promise<unknown>[] = [import('otpauth'), ...delivers];
  if (usesProviders) loads.push(import('../accounts/oidc/client.js'), import('../accounts/oidc/signed.js'));
  if (usesIssuers) loads.push(import('../accounts/jwt/verifier.js'));
  const sends = usesProviders || usesIssuers || config.directory.http !== null;
  if (sends) loads.push(import('undici'));
  await Promise.all(loads);
}
