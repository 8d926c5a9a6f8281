import { readAnswer, valuesOf } from '../../test/helpers/strict.mjs';

/** @import { StrictRequest } from '../../test/helpers/strict.mjs' */
/** @import { Seen, SeenRequest, Talk } from '../../test/helpers/wire.mjs' */
/** @import { Input } from './execute.mjs' */
/** @import { SentInput } from './sent-inputs.mjs' */
/** @import { Log, Secret, Secrets } from './subject.mjs' */
/**
 * @typedef {{ kind: string, detail: string, input?: Input }} Finding `input` is the one that it is
 *   about, which may have been sent earlier
 */
/** @typedef {{ statuses: number[] } | { fault: string }} Statuses */

const IDENTITY = /^x-auth-(?:user-id|customer-id|login|role|scope|services|credential|token-id)$/;
/** The host is the client's choice. */
const OF_A_PROXY =
  /^(?:x-forwarded-(?!host$).*|forwarded|x-original-(?:url|uri|host|method)|x-real-ip|x-request-id|proxy|x-http-method-override)$/;
/** @param {string} name */
const fold = (name) => name.toLowerCase().replace(/[_.]/g, '-');

/**
 * Returns the statuses of the final responses to the client. In an input that is not well-formed,
 * it is unknown which responses belong to a HEAD, so both readings are tried.
 *
 * @param {Buffer} bytes
 * @param {boolean} ended
 * @param {boolean} mayBeHead
 */
export function readStatuses(bytes, ended, mayBeHead) {
  /**
   * @param {number} from
   * @param {number[]} statuses
   * @returns {Statuses}
   */
  const read = (from, statuses) => {
    if (from === bytes.length) return { statuses };
    const faults = [];
    for (const method of mayBeHead ? ['GET', 'HEAD'] : ['GET']) {
      const answer = readAnswer(bytes, from, method, ended);
      if (answer === undefined) return { statuses };
      if ('fault' in answer) faults.push(answer);
      else if (answer.status === 101) return { statuses: [...statuses, 101] };
      else {
        const rest = read(answer.end, answer.status < 200 ? statuses : [...statuses, answer.status]);
        if (!('fault' in rest)) return rest;
        faults.push(rest);
      }
    }
    return faults[0];
  };
  return read(0, []);
}

/**
 * Checks the rules that hold for any input, and returns each violation, except of what its
 * requests, `seen.requests`, contain: see {@link judgeRequest}.
 *
 * @param {{ sent: SentInput, talked: Talk, seen: Seen, log: Log, secrets: Secrets, alive: boolean
 *   }} what
 */
export function judge({ sent, talked, seen, log, secrets, alive }) {
  /** @type {Finding[]} */
  const found = [];
  const text = sent.bytes.toString('latin1');
  if (!alive) found.push({ kind: 'dead', detail: 'the process ended' });
  const answers = readStatuses(talked.bytes, talked.ended, /HEAD/.test(text));
  if ('fault' in answers) found.push({ kind: 'answer', detail: answers.fault });
  const statuses = 'fault' in answers ? [] : answers.statuses;
  for (const status of statuses) if (status === 500) found.push({ kind: '500', detail: 'an answer of 500' });
  judgeLog(log, secrets, found);
  for (const { fault, bytes: part } of seen.faults)
    found.push({
      kind: 'framing',
      detail: `${fault} in ${JSON.stringify(part.toString('latin1').slice(0, 300))}`,
    });
  const most = sent.strict?.length ?? text.match(/HTTP\/1\.[01]/g)?.length ?? 0;
  if (seen.requests.length > most)
    found.push({ kind: 'more', detail: `${seen.requests.length} requests upstream, ${most} sent` });
  return { found, statuses };
}

/**
 * @param {Log} log
 * @param {Secrets} secrets
 * @param {Finding[]} found
 */
function judgeLog({ lines, errors }, secrets, found) {
  if (errors !== '') found.push({ kind: 'stderr', detail: errors.slice(0, 500) });
  for (const line of lines) {
    let record;
    try {
      record = JSON.parse(line);
    } catch {
      found.push({ kind: 'log', detail: `no JSON: ${line.slice(0, 200)}` });
      continue;
    }
    if (record.level >= 50 || record.outcome === 'fault')
      found.push({ kind: 'fault', detail: line.slice(0, 1_000) });
    // A path is the client's text, and some details quote it.
    const { path: _path, detail: _detail, method: _method, ...rest } = record;
    const said = JSON.stringify(rest);
    for (const { secret } of Object.values(secrets))
      if (said.includes(secret)) found.push({ kind: 'logged', detail: said });
  }
}

/**
 * Checks a request that reached the upstream, and returns each violation.
 *
 * @param {SeenRequest} request
 * @param {SentInput} sent the input that it belongs to
 */
export function judgeRequest(request, { input, held, strict }) {
  /** @type {Finding[]} */
  const found = [];
  /**
   * @param {string} kind
   * @param {string} detail
   */
  const say = (kind, detail) =>
    found.push({
      kind,
      detail: `${detail}: ${JSON.stringify(request.bytes.toString('latin1').slice(0, 600))}`,
      input,
    });
  const { method, target, fields, body } = request;
  const names = fields.map(([name]) => fold(name));
  const identity = names.filter((name) => IDENTITY.test(name));
  if (new Set(identity).size !== identity.length) say('twice', 'an identity field comes twice');
  for (const [name, value] of fields)
    if ((IDENTITY.test(fold(name)) || OF_A_PROXY.test(fold(name))) && /evil/.test(value))
      say('identity', `${name} of the client`);
  const [user] = valuesOf(fields, 'x-auth-user-id');
  const path = decodeOnce(target.split('?', 1)[0]);
  if (user === undefined) {
    if (path !== '/status') say('credential', 'a protected route without an identity');
    if (identity.length > 0) say('identity', 'an identity without a user');
  } else if (!held.some((each) => each.user === user))
    say('credential', `the user ${user} has no credential in the input`);
  if (user === 'engineer' && !/^\/service\/SVC1(?:[/]|$)/.test(path) && /^\/+service\/+[^/]/i.test(path))
    say('service', 'another service than that of the token');
  if (strict === undefined) return found;
  // A well-formed input has only one reading.
  const same = strict.find(
    (each) => each.method === method && each.target === target && each.body.equals(body),
  );
  if (same === undefined) say('other', 'no such request was sent');
  const inPlace = strict.every(
    (each) => !each.target.includes('{') && held.every((h) => onlyWhereItBelongs(each, h)),
  );
  if (inPlace)
    for (const { secret } of held)
      if (request.bytes.includes(secret)) say('secret', 'a secret reached the upstream');
  return found;
}

/**
 * Returns whether a secret appears only in a key field and in a session cookie.
 *
 * @param {StrictRequest} request
 * @param {Secret} held
 */
function onlyWhereItBelongs({ target, fields, body }, { secret }) {
  if (target.includes(secret) || body.includes(secret)) return false;
  return fields.every(
    ([name, value]) =>
      !value.includes(secret) ||
      /^service[-_.](?:key|otp)$/i.test(name) ||
      (/^cookie$/i.test(name) &&
        value.split(';').every((pair) => !pair.includes(secret) || /^\s*service\.session=/.test(pair))),
  );
}

/** @param {string} path */
function decodeOnce(path) {
  return path.replace(/%([0-7][0-9a-f])/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
}

/**
 * Summarizes an outcome in a few words: inputs with a new summary are kept.
 *
 * @param {number[]} statuses
 * @param {Seen} seen
 * @param {Log} log
 */
export function shapeOf(statuses, seen, log) {
  const outcomes = log.lines.map((line) => {
    try {
      const { outcome, detail = '', route = '' } = JSON.parse(line);
      return `${outcome}/${String(detail)
        .replace(/[^a-z ]/gi, '')
        .slice(0, 40)}/${route}`;
    } catch {
      return 'no JSON';
    }
  });
  const shapes = seen.requests.map(({ method, fields, body }) => {
    const framing =
      valuesOf(fields, 'transfer-encoding').length > 0 ? 'chunked' : body.length > 0 ? 'length' : 'none';
    return `${method}/${framing}/${fields.length > 20 ? 'many' : fields.length}`;
  });
  return [statuses.join(), ...outcomes.toSorted(), ...shapes.toSorted(), `${seen.cut.length}`].join(' ');
}
