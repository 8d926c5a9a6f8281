#!/usr/bin/env node
// Measures the cost of the codec in src/http1 next to Node's parser (llhttp with its headers as
// strings), in one run.
import common from 'node:_http_common';
import { parseArgs } from 'node:util';
import { built } from '../lib/built.mjs';
import { median } from '../lib/statistics.mjs';

const { DEFAULT_LIMITS } = await built('http1/events');
const { RequestParser } = await built('http1/request-parser');
const { ResponseParser } = await built('http1/response-parser');
const { requestHead, UNFRAMED } = await built('http1/write');
const { HTTPParser } = common;
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '60' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`npm run bench:http1 -- [options]

  --rounds N   of each pair, in turn (60). A row is the median of their ratios, in CPU time of this process
`);
  process.exit(0);
}

const MESSAGES = 64;
const PER_ROUND = 4_000;
let sink = 0;

/**
 * @param {string} target
 * @param {number} id
 */
const request = (target, id) =>
  `GET ${target} HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\n` +
  'Accept: application/json, text/plain, */*\r\nAccept-Encoding: gzip, deflate, br\r\nAccept-Language: en-US,en;q=0.9\r\n' +
  `Service-Key: 0123456789abcdef0123456789abcdef\r\nX-Request-Id: 7f3a9c-${id}\r\nConnection: keep-alive\r\n\r\n`;
/**
 * @param {number} second
 * @param {number | string} tag
 */
const answer = (second, tag) =>
  'HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 13\r\n' +
  `Date: Mon, 23 Nov 2026 06:50:${second} GMT\r\nCache-Control: no-store\r\nETag: "${tag}"\r\nVary: Accept-Encoding\r\n` +
  'Connection: keep-alive\r\n\r\n{"ok": true}\n';
/** @param {(i: number) => string} make */
const many = (make) => Array.from({ length: MESSAGES }, (_, i) => Buffer.from(make(10 + (i % 50)), 'latin1'));

/** @type {[name: string, isAnswer: boolean, messages: Buffer[]][]} */
const ROWS = [
  ['request, the same again', false, many(() => request('/service/SVC1/version/1', 1))],
  ['request, another target', false, many((i) => request(`/service/SVC1/version/${i}`, 1))],
  ['request, another target and field', false, many((i) => request(`/service/SVC1/version/${i}`, i))],
  ['answer, the same again', true, many(() => answer(10, 'a'))],
  ['answer, other fields', true, many((i) => answer(i, i))],
];

/**
 * Uses Node's parser as node:http does: every field is a string.
 *
 * @param {boolean} isAnswer
 * @param {Buffer[]} messages
 */
function llhttp(isAnswer, messages) {
  const parser = new HTTPParser();
  parser.initialize(isAnswer ? HTTPParser.RESPONSE : HTTPParser.REQUEST, {});
  parser[HTTPParser.kOnHeadersComplete | 0] = (
    /** @type {number} */ _major,
    /** @type {number} */ _minor,
    /** @type {string[]} */ fields,
  ) => {
    sink += fields.length;
    return 0;
  };
  parser[HTTPParser.kOnBody | 0] = (/** @type {Buffer} */ body) => void (sink += body.length);
  parser[HTTPParser.kOnMessageComplete | 0] = () => undefined;
  return () => {
    for (let i = 0; i < PER_ROUND; i++) parser.execute(messages[i % MESSAGES]);
  };
}

/**
 * @param {boolean} isAnswer
 * @param {Buffer[]} messages
 */
function codec(isAnswer, messages) {
  const parser = isAnswer ? new ResponseParser(DEFAULT_LIMITS) : new RequestParser(DEFAULT_LIMITS);
  return () => {
    for (let i = 0; i < PER_ROUND; i++) {
      if (parser instanceof ResponseParser) parser.expect('GET');
      parser.feed(messages[i % MESSAGES]);
      for (let event = parser.next(); event !== 0; event = parser.next()) {
        if (event === 1) sink += parser.fields.length;
        else if (event === 6) throw new Error(parser.fault);
      }
    }
  };
}

/** @param {() => void} work */
function cpuMicroseconds(work) {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / PER_ROUND;
}

const fields = ['User-Agent', 'Mozilla/5.0 (X11; Linux x86_64)', 'Accept', '*/*', 'X-Request-Id', '7f3a9c'];
/** @type {import('../../src/http1/write.js').RequestStart} */
const START = { method: 'GET', target: '/service/SVC1', host: 'a', connection: 'keep-alive' };
const writing = () => {
  for (let i = 0; i < PER_ROUND; i++) sink += requestHead(START, fields, UNFRAMED).length;
}; // prettier-ignore

/**
 * @typedef {{ name: string, works: ((() => void) | undefined)[], costs: number[][] }} Pair Node's
 *   work and the codec's
 */
/** @type {Pair[]} */
const pairs = ROWS.map(([name, ...work]) => ({ name, works: [llhttp(...work), codec(...work)], costs: [] }));
pairs.push({ name: 'a request head written', works: [undefined, writing], costs: [] });
for (let round = -10; round < Number(values.rounds); round++)
  for (const { works, costs } of pairs) {
    const cost = works.map((work) => (work === undefined ? NaN : cpuMicroseconds(work)));
    if (round >= 0) costs.push(cost);
  }
process.stdout.write(
  'µs of CPU'.padEnd(36) + 'node'.padStart(8) + 'codec'.padStart(8) + 'ratio'.padStart(8) + '\n',
);
for (const { name, costs } of pairs) {
  const [node, own] = [0, 1].map((i) => median(costs.map((cost) => cost[i])));
  const ratio = median(costs.map(([theirs, ours]) => ours / theirs));
  const figures = [node, own, ratio].map((figure) =>
    (Number.isFinite(figure) ? figure.toFixed(2) : '').padStart(8),
  );
  process.stdout.write(name.padEnd(36) + figures.join('') + '\n');
}
if (sink === 0) throw new Error('nothing was read');
