import { Counter } from 'prom-client';

export const jwtVerifications = new Counter({
  name: 'latchkey_jwt_verifications_total',
  help: 'JWTs of other issuers that were verified, by outcome; those remembered are not counted.',
  labelNames: ['issuer', 'outcome'] as const,
});

export const jwtKeyFetches = new Counter({
  name: 'latchkey_jwt_key_fetches_total',
  help: 'Fetches of the public keys of an issuer of JWTs, by outcome.',
  labelNames: ['issuer', 'outcome'] as const,
});
