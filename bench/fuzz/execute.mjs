import { readAnswers } from '../../test/helpers/strict.mjs';
import { abandon, talk } from '../../test/helpers/wire.mjs';
import { judge, shapeOf, strictRequests } from './judge.mjs';

/** @import { SeenRequest } from '../../test/helpers/wire.mjs' */
/** @import { Random } from './random.mjs' */
/** @import { Subject } from './subject.mjs' */
/** @typedef {string[]} Input pieces of Latin-1, with secrets as `{{NAME}}` */

/** Quiet time after which no more responses are expected, in milliseconds. */
const QUIET_MS = 60;
const SETTLE_MS = 4;
/** Number of earlier inputs that may still have requests in flight. */
const EARLIER = 5;
const MINIMISE_MS = 20_000;
/** Time for the effects of a reset connection to show, in milliseconds. */
const ABANDONED_MS = 50;

/** @type {string[]} */
let earlier = [];

/**
 * Returns whether a request belongs to an earlier input, whose connection was abandoned too early.
 *
 * @param {SeenRequest} request
 * @param {string} text
 */
function isLate({ method, target }, text) {
  const line = `${method} ${target} `;
  return !text.includes(line) && earlier.some((each) => each.includes(line));
}

/**
 * Sends one input and judges the outcome.
 *
 * @param {Subject} subject
 * @param {Input} input
 */
export async function execute(subject, input, patience = 1) {
  const { secrets, upstream } = subject;
  const pieces = input.map((piece) => Buffer.from(fillIn(subject, piece), 'latin1'));
  const bytes = Buffer.concat(pieces);
  upstream.reset();
  const strict = strictRequests(bytes);
  const wanted = strict?.length ?? 1;
  const methods = strict?.map(({ method }) => method) ?? [];
  const talked = await talk(subject.port, pieces, {
    enough: (soFar) => readAnswers(soFar, methods, false).answers.length >= wanted,
    quietMs: QUIET_MS * patience,
    settleMs: SETTLE_MS * patience,
  });
  const log = subject.takeLog();
  const text = bytes.toString('latin1');
  const seen = { ...upstream.seen, requests: upstream.seen.requests.filter((each) => !isLate(each, text)) };
  earlier = [text, ...earlier.slice(0, EARLIER - 1)];
  const { found, statuses } = judge({ bytes, talked, seen, log, secrets, alive: subject.alive() });
  return { found, statuses, seen, shape: shapeOf(statuses, seen, log) };
}

/**
 * Sends inputs, disconnects in the middle of each, and returns the faults that the server logged
 * for it.
 *
 * @param {Subject} subject
 * @param {Random} random
 * @param {Input[]} inputs
 */
export async function abandonAll(subject, random, inputs) {
  const sent = inputs.map((input) =>
    abandon(subject.port, Buffer.from(fillIn(subject, input.join('')), 'latin1'), random.below(8)),
  );
  await Promise.all(sent);
  await new Promise((wait) => setTimeout(wait, ABANDONED_MS));
  return subject.takeLog().lines.filter((line) => /"level":[56]0/.test(line));
}

/**
 * @param {Subject} subject
 * @param {string} text
 */
function fillIn({ secrets }, text) {
  return text.replace(/\{\{([A-Z]+)\}\}/g, (all, name) => secrets[name]?.secret ?? all);
}

/**
 * Returns whether an input causes the finding again, alone and with time to spare.
 *
 * @param {Subject} subject
 * @param {Input} input
 * @param {string} kind
 */
export async function reproduce(subject, input, kind, pause = 150) {
  if (!subject.alive()) return kind === 'dead';
  await new Promise((wait) => setTimeout(wait, pause));
  earlier = [];
  subject.takeLog();
  const { found } = await execute(subject, input, 3);
  return found.some(([each]) => each === kind);
}

/**
 * Removes parts as long as the finding remains.
 *
 * @param {Subject} subject
 * @param {Input} input
 * @param {string} kind
 */
export async function minimise(subject, input, kind) {
  let best = input;
  const until = Date.now() + MINIMISE_MS;
  /** @param {Input} candidate */
  const attempt = async (candidate) => {
    if (Date.now() > until || !subject.alive()) return false;
    if (!(await reproduce(subject, candidate, kind, 5))) return false;
    best = candidate;
    return true;
  };
  await attempt([best.join('')]);
  for (
    let size = Math.ceil(best.join('').length / 2);
    size >= 1;
    size = size === 1 ? 0 : Math.ceil(size / 4)
  ) {
    for (let at = 0; at < best.join('').length && Date.now() < until;) {
      const text = best.join('');
      if (!(await attempt([text.slice(0, at) + text.slice(at + size)]))) at += size;
    }
  }
  return best;
}
