// Compares the codec of src/http1 with Node's parser on mutated bytes, and with itself on pieces of
// them.
import { readFileSync, writeFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { lenience, readWithCodec, readWithNode, summarise } from '../../test/http1/reading.mjs';
import { answerInput, cut, oddRequestInput, PIPELINES, requestInput } from './engine-inputs.mjs';
import { built } from '../lib/built.mjs';
import { createRandom } from './random.mjs';

/** @import { Reading } from '../../test/http1/reading.mjs' */
/** @import { Input } from './engine-inputs.mjs' */
/** @import { Random } from './random.mjs' */
/** @typedef {(text: string) => void} Say */
/** @typedef {ReturnType<typeof createCheck>} Check */

/** Limits wide enough that those of the other parser make no difference. */
const WIDE = {
  head_size: 1 << 20,
  head_fields: 5_000,
  target_size: 1 << 20,
  chunk_line_size: 1_024,
  extensions_size: 1 << 14,
  trailer_size: 1 << 16,
  informational: 50,
};

/** Maximum number of pipelines to mutate: some have over 100 KiB, and an hour finds thousands. */
const MAX_PIPELINES = 1_000;

/** What the reader of heads looks for; nothing here has any of it. */
const NAMES = {
  key: 'service-key',
  keyHeaders: [],
  otp: 'service-otp',
  sessionCookie: 'service.session',
  jwtFields: [],
  jwtCookies: [],
  basic: false,
  bearer: false,
  jwt: false,
};

/**
 * Returns a function that leaves out the first request whose head the server refuses, and what follows: the
 * codec leaves `Host` and the form of targets to the reader of heads.
 *
 * @param {Pick<Awaited<ReturnType<typeof modules>>, 'createHeadReader' | 'createClientReader'>} reader
 */
export function createAcceptance({ createHeadReader, createClientReader }) {
  const readHead = createHeadReader(NAMES, WIDE, createClientReader([]));
  /** @param {Reading} reading */
  return (reading) => {
    const refused = reading.messages.findIndex(
      ({ method, target, minor, fields }) =>
        method !== undefined &&
        'refusal' in
          readHead({
            method,
            url: target,
            httpVersion: `1.${minor}`,
            rawHeaders: fields,
            socket: { remoteAddress: '127.0.0.1' },
          }),
    );
    return refused < 0 ? reading : { ...reading, messages: reading.messages.slice(0, refused) };
  };
}

/**
 * Creates the check of one input, which returns what is wrong with its readings, if anything.
 *
 * @param {Awaited<ReturnType<typeof modules>>} codec
 */
export function createCheck({ RequestParser, ResponseParser, ...reader }) {
  const accepted = createAcceptance(reader);
  /** @param {Input} input */
  const parserFor = ({ answers }) => {
    if (answers === undefined) return new RequestParser(WIDE);
    const parser = new ResponseParser(WIDE);
    parser.expect(answers);
    return parser;
  };
  /**
   * @param {Input} input
   * @param {Buffer[]} pieces
   */
  return (input, pieces) => {
    const bytes = Buffer.from(input.bytes, 'latin1');
    const whole = readWithCodec(parserFor(input), [bytes]);
    const parts = readWithCodec(parserFor(input), pieces);
    const theirs = readWithNode(bytes, input.answers);
    const found = lenience(whole, theirs) && lenience(accepted(whole), theirs);
    if (found !== undefined) return { whole, found: `more lenient: ${found}` };
    if (!isDeepStrictEqual(whole, parts)) {
      return { whole, found: `otherwise in pieces: ${summarise(whole).join()} | ${summarise(parts).join()}` };
    }
    return { whole, found: undefined };
  };
}

/**
 * Generates inputs from a seed. Inputs that led to new readings are mutated further.
 *
 * @param {Random} random
 */
export function createInputs(random) {
  const pool = [...PIPELINES];
  const shapes = new Set();
  return {
    shapes,
    next: () => {
      const way = random.below(5);
      if (way < 2) return requestInput(random, random.oneIn(2) ? pool.slice(-50) : pool);
      return way === 2 ? oddRequestInput(random) : answerInput(random);
    },
    /**
     * @param {Input} input
     * @param {Reading} reading
     */
    learn: ({ from }, { messages, fault }) => {
      const shape = `${messages.map(({ method, status, complete }) => `${method ?? status}${complete}`).join()} ${fault}`;
      if (shapes.has(shape)) return;
      shapes.add(shape);
      if (from === undefined) return;
      pool.push(from);
      if (pool.length > MAX_PIPELINES) pool.splice(PIPELINES.length, 1);
    },
  };
}

/**
 * Fuzzes for some seconds, or until the first finding.
 *
 * @param {{ seconds: number, seed: number, save: string, say: Say }} what
 */
export async function fuzzEngine({ seconds, seed, save, say }) {
  const check = createCheck(await modules());
  const random = createRandom(seed);
  const inputs = createInputs(random);
  const until = Date.now() + seconds * 1_000;
  /** @type {Map<string, number>} */
  const outcomes = new Map();
  let runs = 0;
  say(`seed ${seed}`);
  while (Date.now() < until) {
    const input = inputs.next();
    const pieces = cut(random, input.bytes);
    const { whole, found } = check(input, pieces);
    runs += 1;
    inputs.learn(input, whole);
    const outcome = whole.fault ?? 'no fault';
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    if (found === undefined) continue;
    const small = minimise(check, input, found.split(':')[0]);
    say(`FOUND (seed ${seed}) ${found}\n  ${JSON.stringify(small)}`);
    writeFileSync(save, JSON.stringify(small));
    say(`kept in ${save}; --engine --replay ${save} reads it again`);
    return false;
  }
  const counts = [...outcomes].toSorted(([, a], [, b]) => b - a).map(([name, times]) => `${name}: ${times}`);
  say(`${runs} inputs, ${inputs.shapes.size} shapes; ${counts.join(', ')}`);
  return true;
}

/**
 * Replays one saved input.
 *
 * @param {{ file: string, say: Say }} what
 */
export async function replayEngine({ file, say }) {
  const input = JSON.parse(readFileSync(file, 'utf8'));
  const bytes = Buffer.from(input.bytes, 'latin1');
  const each = Array.from(bytes, (_, i) => bytes.subarray(i, i + 1));
  const { whole, found } = createCheck(await modules())(input, each);
  say(`codec: ${summarise(whole).join(' | ')}`);
  const theirs = readWithNode(bytes, input.answers);
  say(`node:  ${summarise({ ...theirs, faultAt: '' }).join(' | ')}`);
  say(found ?? 'nothing is wrong with it');
  return found === undefined;
}

async function modules() {
  const { RequestParser } = await built('http1/request-parser');
  const { ResponseParser } = await built('http1/response-parser');
  const { createHeadReader } = await built('http/read-head');
  const { createClientReader } = await built('http/client-address');
  return { RequestParser, ResponseParser, createHeadReader, createClientReader };
}

/**
 * Removes bytes as long as the same fault remains.
 *
 * @param {Check} check
 * @param {Input} input
 * @param {string} kind
 * @returns {Input}
 */
function minimise(check, input, kind) {
  let { bytes } = input;
  /** @param {string} text */
  const isWrong = (text) => {
    const buffer = Buffer.from(text, 'latin1');
    const each = Array.from(buffer, (_, i) => buffer.subarray(i, i + 1));
    return check({ ...input, bytes: text }, each).found?.startsWith(kind) === true;
  };
  for (let size = bytes.length >> 1; size > 0; size >>= 1) {
    for (let at = 0; at < bytes.length;) {
      const shorter = bytes.slice(0, at) + bytes.slice(at + size);
      if (isWrong(shorter)) bytes = shorter;
      else at += size;
    }
  }
  return { answers: input.answers, bytes };
}
