// What each example here verifies assertions with.
const env = process.env;

export const port = Number(env.PORT ?? 3000);

/** @type {import('latchkey/verify').VerifyOptions} */
export const options = {
  jwks: env.JWKS_URL ?? 'http://127.0.0.1:8080/.well-known/jwks.json',
  issuer: env.ISSUER ?? 'https://auth.example.com',
  audience: env.AUDIENCE ?? 'example-api',
  bound: 'required', // as latchkey.yaml here has bind: request
};
