// An account source: it answers Latchkey's question "is this login right, and who is it?".
// Replace the table of users by your own. It must be reachable by Latchkey only: here it listens on loopback.
import { createHmac, randomBytes, scryptSync, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const users = [
  {
    login: 'ada@example.com',
    password: hash('correct horse battery staple'),
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
    password: hash('correct horse battery staple'),
    otpSecret: Buffer.from('12345678901234567890'),
    account: { id: 'U2', customer_id: 'C1', name: 'Bob', role: 'engineer', locked: false, two_factor: true },
  },
];

const server = createServer((req, res) => void answer(req, res));

async function answer(req, res) {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const { login, password, otp } = JSON.parse(Buffer.concat(chunks).toString());
  const [status, account] = judge(login, password, otp);
  res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(account));
}

/** 200 and the account only when everything that was sent is right. */
function judge(login, password, otp) {
  const user = users.find((each) => each.login === login.toLowerCase());
  // An unknown login takes the same work as a wrong password.
  if (!isRight(user?.password ?? hash('nobody'), password) || user === undefined) {
    return [401, { code: 'invalid_grant' }];
  }
  if (user.account.two_factor && !takeCode(user, otp)) return [401, { code: '2fa.verify' }];
  return [200, user.account];
}

/** A time-based one-time password (RFC 6238) of this step or the one before, each of them once. */
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

function hash(password, salt = randomBytes(16)) {
  return { salt, key: scryptSync(password, salt, 32) };
}

function isRight({ salt, key }, password) {
  return timingSafeEqual(key, hash(password, salt).key);
}

server.listen(Number(process.env.PORT ?? 4000), '127.0.0.1', () => {
  console.log(`accounts at http://127.0.0.1:${server.address().port}/`);
});
