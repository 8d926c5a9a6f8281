import { readAnswers } from '../../test/helpers/strict.mjs';
import { abandon, talk } from '../../test/helpers/wire.mjs';
import { judge, judgeRequest, shapeOf } from './judge.mjs';
import { senderOf, SentInputs } from './sent-inputs.mjs';

/** @import { SeenRequest } from '../../test/helpers/wire.mjs' */
/** @import { Finding } from './judge.mjs' */
/** @import { Random } from './random.mjs' */
/** @import { Subject } from './subject.mjs' */
/** @typedef {string[]} Input pieces of Latin-1, with secrets as `{{NAME}}`, perhaps with {@link END} */

/** At the end of an input: our side of the connection ends. */
export const END = '{{END}}';
/** Quiet time after which no more responses are expected, in milliseconds. */
const QUIET_MS = 60;
const SETTLE_MS = 4;
const MINIMISE_MS = 20_000;
/** Time for the effects of a reset connection to show, in milliseconds. */
const ABANDONED_MS = 50;

const inputs = new SentInputs();

/**
 * Sends one input and judges the outcome.
 *
 * @param {Subject} subject
 * @param {Input} input
 */
export async function execute(subject, input, patience = 1) {
  const { secrets, upstream } = subject;
  const pieces = input.map((piece) => Buffer.from(fillIn(subject, piece), 'latin1'));
  const sent = inputs.add(input, Buffer.concat(pieces), secrets);
  upstream.reset();
  const wanted = sent.strict?.length ?? 1;
  const methods = sent.strict?.map(({ method }) => method) ?? [];
  const talked = await talk(subject.port, pieces, {
    enough: (soFar) => readAnswers(soFar, methods, false).answers.length >= wanted,
    quietMs: QUIET_MS * patience,
    settleMs: SETTLE_MS * patience,
    localAddress: sent.address,
    end: input.at(-1)?.endsWith(END) === true,
  });
  const log = subject.takeLog();
  const { requests } = upstream.seen;
  const seen = { ...upstream.seen, requests: requests.filter((each) => senderOf(each) === sent.address) };
  const { found, statuses } = judge({ sent, talked, seen, log, secrets, alive: subject.alive() });
  return {
    found: [...found, ...requests.flatMap(judgeForwarded)],
    statuses,
    seen,
    shape: shapeOf(statuses, seen, log),
  };
}

/**
 * Judges a forwarded request by the input that it belongs to. A connection that stayed quiet is
 * abandoned, so its request may reach the upstream when a later input is sent.
 *
 * @param {SeenRequest} request
 * @returns {Finding[]}
 */
function judgeForwarded(request) {
  const sent = inputs.sender(request);
  if (sent !== undefined) return judgeRequest(request, sent);
  const text = request.bytes.toString('latin1').slice(0, 600);
  return [{ kind: 'stranger', detail: `no input was sent from ${senderOf(request)}: ${text}` }];
}

/**
 * Sends inputs, disconnects in the middle of each, and judges what reached the upstream and the
 * log.
 *
 * @param {Subject} subject
 * @param {Random} random
 * @param {Input[]} batch
 * @returns {Promise<Finding[]>}
 */
export async function abandonAll(subject, random, batch) {
  subject.upstream.reset();
  const abandoned = batch.map((input) => {
    const { bytes, address } = inputs.add(input, bytesOf(subject, input), subject.secrets);
    return abandon(subject.port, bytes, random.below(8), address);
  });
  await Promise.all(abandoned);
  await new Promise((wait) => setTimeout(wait, ABANDONED_MS));
  const faults = subject.takeLog().lines.filter((line) => /"level":[56]0/.test(line));
  return [
    ...faults.map((detail) => ({ kind: 'fault', detail })),
    ...subject.upstream.seen.requests.flatMap(judgeForwarded),
  ];
}

/**
 * @param {Subject} subject
 * @param {Input} input
 */
function bytesOf(subject, input) {
  return Buffer.from(fillIn(subject, input.join('')), 'latin1');
}

/**
 * @param {Subject} subject
 * @param {string} text
 */
function fillIn({ secrets }, text) {
  return text.replace(END, '').replace(/\{\{([A-Z]+)\}\}/g, (all, name) => secrets[name]?.secret ?? all);
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
  subject.takeLog();
  const { found } = await execute(subject, input, 3);
  return found.some((each) => each.kind === kind);
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
