import { readFileSync } from 'node:fs';
import t from 'tap';
import { parse } from 'yaml';
// @ts-expect-error The fuzzer is JavaScript without types.
import { createAcceptance, createCheck, createInputs } from '../../bench/fuzz/engine.mjs';
// @ts-expect-error As above.
import { cut } from '../../bench/fuzz/engine-inputs.mjs';
// @ts-expect-error As above.
import { corrupt } from '../../bench/fuzz/mutate.mjs';
import { createClientReader } from '../../src/http/client-address.js';
import { createHeadReader } from '../../src/http/read-head.js';
import { DEFAULT_LIMITS } from '../../src/http1/events.js';
import { RequestParser } from '../../src/http1/request-parser.js';
import { ResponseParser } from '../../src/http1/response-parser.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { createRandom } from '../helpers/random.js';
import { readWithCodec, summarise, type Reading } from './reading.mjs';

interface Case {
  readonly name: string;
  /** Latin-1. */
  readonly bytes: string;
  /** The method of the request that the bytes respond to; without it, the bytes are requests. */
  readonly answers?: string;
  /** What the codec reads: one line for each message, and the refusal. */
  readonly reads?: readonly string[];
}
type Check = (input: Case, pieces: readonly Buffer[]) => { whole: Reading; found: string | undefined };

const SEED = 7;
const MUTANTS = 3;
const FUZZED = EVERY_CASE ? 20_000 : 2_000;
const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');
const corpus = (name: string) => (JSON.parse(read(`corpora/${name}`)) as { cases: Case[] }).cases;
const reader = { createHeadReader, createClientReader };
const check = createCheck({ RequestParser, ResponseParser, ...reader }) as Check;
const accepted = createAcceptance(reader) as (reading: Reading) => Reading;

/** The attack cases as bytes, with any text in place of their variables. */
const attacks = (
  JSON.parse(read('../hostile/attack-cases.json')) as { id: string; raw: string; expect_status: unknown[] }[]
).map((each) => ({ name: each.id, bytes: withoutVariables(each.raw), statuses: each.expect_status }));
/** How a server may refuse a request that is not HTTP. */
const REFUSALS: readonly unknown[] = [400, 414, 431, 501, 505, 'close'];
const published = ['llhttp', 'gunicorn', 'h1spec'].flatMap((project) =>
  (
    parse(read(`../hostile/fixtures/${project}.yaml`)) as { cases: { about: string; send: string }[] }
  ).cases.map(({ about, send }) => ({ name: `${project} ${about}`, bytes: withoutVariables(send) })),
);

function withoutVariables(raw: string): string {
  return raw
    .replace(/\{\{REPEAT:(\d+):([^}]*)\}\}/g, (_, times: string, text: string) => text.repeat(Number(times)))
    .replace(/\{(.+?)\*(\d+)\}/g, (_, text: string, times: string) => text.repeat(Number(times)))
    .replaceAll('{K}', 'Host: a')
    .replace(/\{\{IDH\w*\}\}/g, 'X-Auth-User-Id')
    .replace(/\{\{(?:PAUSE:\d+)\}\}|\{END\}/g, '')
    .replace(/\{\{\w+\}\}/g, 'v');
}

function bytesAlone(text: string): Buffer[] {
  const bytes = Buffer.from(text, 'latin1');
  return bytes.length > 5_000 ? [bytes] : Array.from(bytes, (_, i) => bytes.subarray(i, i + 1));
}

const CORPORA: Readonly<Record<string, readonly Case[]>> = {
  llhttp: corpus('llhttp.json'),
  'http-garden': corpus('http-garden.json'),
  'fuzzer findings': corpus('findings.json'),
  'attacks on the server': attacks,
  'published test cases': published,
};

for (const [name, cases] of Object.entries(CORPORA)) {
  t.test(`${name}: reads as recorded, no more leniently than Node, and the same in pieces`, async (t) => {
    t.ok(cases.length > 2, `${cases.length} cases`);
    const random = createRandom(SEED);
    const wrong: string[] = [];
    for (const each of cases) {
      const { whole, found } = check(each, bytesAlone(each.bytes));
      if (found !== undefined) wrong.push(`${each.name}: ${found}`);
      if (each.reads !== undefined && JSON.stringify(summarise(whole)) !== JSON.stringify(each.reads))
        wrong.push(`${each.name}: read as ${JSON.stringify(summarise(whole))}`);
      for (let i = 0; i < MUTANTS; i++) {
        const bytes = corrupt(random, each.bytes, [cases[random.below(cases.length)]?.bytes]) as string;
        const mutant = check({ ...each, bytes }, cut(random, bytes) as Buffer[]);
        if (mutant.found !== undefined)
          wrong.push(`mutant of ${each.name}: ${mutant.found}: ${JSON.stringify(bytes)}`);
      }
    }
    t.same(wrong, []);
  });
}

t.test('the readers of bytes and of heads refuse every attack that a server may only refuse', async (t) => {
  const only = attacks.filter(({ statuses }) => statuses.every((each) => REFUSALS.includes(each)));
  t.ok(only.length > 50, `${only.length} cases`);
  const read = only.filter((each) => {
    const reading = readWithCodec(new RequestParser(DEFAULT_LIMITS), bytesAlone(each.bytes));
    const isRead = reading.fault === undefined || reading.fault === 'cut_off';
    return isRead && accepted(reading).messages.length === reading.messages.length;
  });
  t.same(
    read.map(({ name }) => name),
    [],
  );
});

t.test('a short run of the fuzzer finds nothing', async (t) => {
  const random = createRandom(SEED);
  const inputs = createInputs(random) as {
    shapes: Set<string>;
    next(): Case;
    learn(input: Case, reading: Reading): void;
  };
  const wrong: string[] = [];
  for (let i = 0; i < FUZZED && wrong.length === 0; i++) {
    const input = inputs.next();
    const { whole, found } = check(input, cut(random, input.bytes) as Buffer[]);
    if (found !== undefined) wrong.push(`${found}: ${JSON.stringify(input)}`);
    inputs.learn(input, whole);
  }
  t.same(wrong, []);
  t.ok(inputs.shapes.size > 20, `${inputs.shapes.size} shapes`);
});
