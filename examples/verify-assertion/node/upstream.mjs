// An upstream that trusts only Latchkey's signed assertion. Needs: npm install jose
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { createRemoteJWKSet, errors, jwtVerify } from 'jose';

const {
  PORT = '3000',
  JWKS_URL = 'http://127.0.0.1:8080/.well-known/jwks.json',
  ISSUER = 'https://auth.example.com',
  AUDIENCE = 'example-api',
  JWKS_MAX_AGE = '300', // seconds; the same as in Latchkey's Cache-Control
  BOUND, // "required": accept only assertions that are bound to their request
} = process.env;

// Fetches the keys when they are too old, and when an assertion names an unknown key: the latter at
// most every 5 seconds, so that invented key names do not cause a flood of requests.
const keys = createRemoteJWKSet(new URL(JWKS_URL), {
  cacheMaxAge: Number(JWKS_MAX_AGE) * 1000,
  cooldownDuration: 5_000,
  timeoutDuration: 5_000,
});

// jose's errors when it cannot fetch the keys; they say nothing about the assertion.
const NO_KEYS = new Set(['ERR_JOSE_GENERIC', 'ERR_JWKS_TIMEOUT']);

/** Returns the claims of a request's assertion. Throws if it is not valid. */
async function verify(req) {
  const [assertion = '', ...more] = req.headersDistinct['x-auth-assertion'] ?? [];
  if (more.length > 0) throw new errors.JWTInvalid('several assertions');
  const { payload } = await jwtVerify(assertion, keys, {
    algorithms: ['EdDSA', 'ES256'], // never "none", never a shared secret
    issuer: ISSUER,
    audience: AUDIENCE,
    requiredClaims: ['exp', 'iat', 'sub'],
    // Longest lifetime of an assertion. With this option, jose also refuses one from the future.
    maxTokenAge: '1h',
    clockTolerance: 5, // seconds by which the clocks of both machines may differ
  });
  if (payload.dev !== undefined) throw new errors.JWTInvalid('it was made for tests');
  const isBound = ['htm', 'htu', 'rid'].some((name) => payload[name] !== undefined);
  if ((isBound || BOUND === 'required') && !isFor(req, payload))
    throw new errors.JWTInvalid('it is for another request');
  return payload;
}

/** Whether a bound assertion is for this request: the same method, target as received, and id. */
function isFor({ method, url, headersDistinct }, { htm, htu, rid }) {
  const ids = headersDistinct['x-request-id'] ?? [];
  const digest = createHash('sha256').update(url, 'latin1').digest('base64url');
  return htm === method && htu === digest && ids.length === 1 && ids[0] === rid;
}

async function serve(req, res) {
  const respond = (status, body) =>
    res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
  try {
    const caller = await verify(req);
    respond(200, { hello: caller.login, caller });
  } catch (error) {
    // Without the keys the signature cannot be checked, so the assertion is not trusted.
    if (error instanceof errors.JOSEError && !NO_KEYS.has(error.code)) respond(401, { error: error.code });
    else respond(503, { error: 'the keys cannot be fetched' });
  }
}

const server = createServer((req, res) => void serve(req, res));
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
