// The verification settings of all examples in this folder.
const env = process.env;

export const port = Number(env.PORT ?? 3000);

/** @type {import('latchkey/verify').VerifyOptions} */
export const options = {
  jwks: env.JWKS_URL ?? 'http://127.0.0.1:8080/.well-known/jwks.json',
  issuer: env.ISSUER ?? 'https://auth.example.com',
  audience: env.AUDIENCE ?? 'example-api',
  bound: 'required', // because ../latchkey.yaml sets bind: request
};
