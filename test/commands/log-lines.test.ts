import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { hasCaller, linesOf, readLogLine } from '../../src/commands/log-lines.js';
import { temporaryFolder } from '../helpers/latchkey.js';

const ENTRY = {
  time: '2026-03-04T10:20:30.123Z',
  request_id: 'r-1',
  method: 'GET',
  path: '/a',
  status: 200,
  outcome: 'forwarded',
  msg: 'request',
};
const all = async (file: string) => {
  const lines: string[] = [];
  for await (const { bytes } of linesOf(file)) lines.push(bytes.toString());
  return lines;
};
const read = (more: object = {}) => {
  const request = readLogLine(JSON.stringify({ ...ENTRY, ...more }));
  if (typeof request === 'string') throw new Error(request);
  return request;
};

t.test('reads an entry, with each kind of caller', async (t) => {
  t.match(read(), { request_id: 'r-1', method: 'GET', path: '/a', user_id: null, time: ENTRY.time });
  const known = { config_hash: 'abc', decision: 'refused', host: 'h' };
  t.match(read(known), known);
  t.match(read({ decision: 'other', path: 5 }), { decision: null, path: null });
  const who = { user_id: 'U1', customer_id: 'C1' };
  for (const of of [
    { credential: 'token', token_id: 'T' },
    { credential: 'legacy_key', token_id: 'T' },
    { credential: 'session' },
    { credential: 'jwt', issuer: 'ci', subject: 'job' },
  ]) {
    const request = read({ ...who, ...of });
    t.match(request, { ...who, ...of });
    t.equal(hasCaller(request), true);
  }
  t.equal(hasCaller(read({ ...who, credential: 'other' })), false);
});

t.test('classifies lines that are not entries of requests', async (t) => {
  for (const line of ['', 'x', '[]', 'null', '{"msg":"request"}', '{"a":', '{"log":"{}","stream":"stdout"}']) {
    const found = readLogLine(line);
    t.equal(found, 'unreadable', line);
  }
  t.equal(readLogLine('{"msg":"ready"}'), 'other');
  t.equal(readLogLine('{"msg":"audit","event":"login"}'), 'other');
}); // prettier-ignore

t.test('reads lines one at a time across chunks', async (t) => {
  const file = join(temporaryFolder(t), 'access.log');
  const lines = Array.from({ length: 3_000 }, (_, i) => `${i} ${'é'.repeat(i % 700)}`);
  writeFileSync(file, `${lines.slice(0, 1500).join('\n')}\n\n${lines.slice(1500).join('\n')}`);
  t.same((await all(file)).filter((line) => line !== ''), lines);
  await t.rejects(all(join(file, 'x')), /cannot be read/);
}); // prettier-ignore
