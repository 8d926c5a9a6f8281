// An account source: checks logins for Latchkey, and responds with the account of the user. Replace
// the table of users with your own. Only Latchkey may reach it, so it listens on loopback here.
import { createHmac, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { promisify } from 'node:util';

/** The cost of a hash. Give users whose hash has an older cost a new one at their next login. */
const COST = { N: 16_384, r: 8, p: 1 };
/** Maximum length of a body in bytes, and of a text in it. Latchkey sends far less. */
const MAX_BODY = 16_384;
const MAX_TEXT = 1_024;
const MAX_WAIT_MS = 5_000;

const derive = promisify(scrypt);

const users = [
  {
    login: 'ada@example.com',
    password: await hash('correct horse battery staple'),
    account: {
      id: 'U1',
      customer_id: 'C1',
      name: 'Ada',
      role: 'superuser',
      locked: false,
      two_factor: false,
    },
  },
  {
    login: 'bob@example.com',
    password: await hash('correct horse battery staple'),
    otpSecret: Buffer.from('12345678901234567890'),
    account: { id: 'U2', customer_id: 'C1', name: 'Bob', role: 'engineer', locked: false, two_factor: true },
  },
];

/** A hash that no password matches, for unknown logins; it costs as much as the costliest real one. */
const nobody = {
  ...users.map(({ password }) => password).reduce((a, b) => (workOf(b) > workOf(a) ? b : a)),
  salt: randomBytes(16),
};

/** A refusal before the password is checked, with the status and the reason. */
class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function handle(req, res) {
  const reply = (status, body, headers = {}) => {
    if (!res.headersSent)
      res.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body));
  };
  try {
    if (req.method !== 'POST') throw new Refused(405, 'expected POST');
    reply(...(await verify(parseLogin(await bodyOf(req)))));
  } catch (error) {
    // Do not wait for the rest of a body.
    const headers = { Connection: 'close', ...(error.status === 405 ? { Allow: 'POST' } : {}) };
    if (error instanceof Refused) reply(error.status, { error: error.message }, headers);
    else if (!req.destroyed) {
      console.error('the request failed:', error.message);
      reply(500, { error: 'internal error' }, headers);
    }
  }
}

async function bodyOf(req) {
  const chunks = [];
  let size = 0;
  // A body that is too long gets a response, but is not read to its end.
  for await (const chunk of req.iterator({ destroyOnReturn: false })) {
    size += chunk.length;
    if (size > MAX_BODY) throw new Refused(413, `expected at most ${MAX_BODY} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Returns `{login, password, otp}`; `otp` is null if none was sent. */
function parseLogin(body) {
  let given;
  try {
    given = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    throw new Refused(400, 'expected JSON');
  }
  const { login, password, otp = null } = given ?? {};
  if (!isText(login) || !isText(password) || (otp !== null && !isText(otp)))
    throw new Refused(400, 'expected {"login": text, "password": text, "otp": text or null}');
  return { login, password, otp };
}

function isText(value) {
  return typeof value === 'string' && value.length <= MAX_TEXT;
}

/** Returns 200 and the account only if everything that was sent is correct. */
async function verify({ login, password, otp }) {
  const user = users.find((each) => each.login === login.toLowerCase());
  // An unknown login takes as much work as a wrong password.
  const right = await isRight(user?.password ?? nobody, password);
  if (!right || user === undefined) return [401, { code: 'invalid_grant' }];
  if (user.account.two_factor && !takeCode(user, otp)) return [401, { code: '2fa.verify' }];
  return [200, user.account];
}

/** Accepts a time-based one-time password (RFC 6238) of this step or the previous one, each only once. */
function takeCode(user, otp) {
  const now = Math.floor(Date.now() / 30_000);
  const step = [now, now - 1].find((each) => codeOf(user.otpSecret, each) === otp);
  if (step === undefined || step <= (user.lastStep ?? 0)) return false;
  user.lastStep = step;
  return true;
}

function codeOf(secret, step) {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const digest = createHmac('sha1', secret).update(counter).digest();
  const offset = digest[19] & 15;
  return String((digest.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

async function hash(password, cost = COST, salt = randomBytes(16)) {
  return { cost, salt, key: await derive(password, salt, 32, { ...cost, maxmem: 256 * cost.N * cost.r }) };
}

function workOf({ cost: { N, r, p } }) {
  return N * r * p;
}

async function isRight({ cost, salt, key }, password) {
  return timingSafeEqual(key, (await hash(password, cost, salt)).key);
}

// Close connections whose request head or body is not complete in time.
const limits = {
  headersTimeout: MAX_WAIT_MS,
  requestTimeout: MAX_WAIT_MS,
  connectionsCheckingInterval: 1_000,
};
const server = createServer(limits, (req, res) => void handle(req, res));
server.listen(Number(process.env.PORT ?? 4000), '127.0.0.1', () => {
  console.log(`accounts at http://127.0.0.1:${server.address().port}/`);
});
