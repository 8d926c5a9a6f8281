import { Counter } from 'prom-client';

export const providerLogins = new Counter({
  name: 'latchkey_oidc_logins_total',
  help: 'Logins at OpenID Connect providers, by outcome.',
  labelNames: ['provider', 'outcome'] as const,
});

export const providerDiscoveries = new Counter({
  name: 'latchkey_oidc_discoveries_total',
  help: 'Fetches of the configuration of an OpenID Connect provider, by outcome.',
  labelNames: ['provider', 'outcome'] as const,
});
