import { unescape } from 'node:querystring';

/** @import { Random } from '../random.mjs' */
/** @import { Router } from './routers.mjs' */
/** @typedef {{ tag: string, sid: string | null }} Judged the rule of a target, and the service that it was judged for */

const BASES = [
  '/open/x', '/open', '/admin', '/admin/x', '/orders/1', '/svc/S1/purge_all', '/svc/S1/x', '/svc/S2', '/users/me', '/users/U1', '/caf%C3%A9', '/x', '/',
]; // prettier-ignore
const WORDS = ['open', 'admin', 'svc', 'S1', 'S2', 'purge_all', 'users', 'me', 'x', 'index.html'];
const ODD = [
  '/', '//', '/.', '/./', '%2f', '%2F', '%5c', ';', ';x', ';x=/', ';/', '%3b', '%3Bx', '%3f', '%3F', '?', '%23', '%20', '%09', '+', '.', '..',
  '%2e', '%2E%2e', '%252e', '%2561', '%25', '~', '@', ':', '*', '!', ',', '=', '&', '%26', '%3a', '.json', '%00', '%c2%a0', '%c2%ad', '%e2%80%8b',
  '%ef%bc%8f', '%ef%bc%8e', '%ef%bc%9b', '%c4%b1', '%c5%bf', '%e2%84%aa', '%ef%bd%81', '%cc%81', '%c3%a9', '%C3%89', '/x', '/admin', '/open',
  '\\', '$', '(', ')', "'", '%22', '"', '|', '^', '`', '{', '}', '%7d', '[', ']', '<', '%ff', '%', '%zz',
]; // prettier-ignore

/**
 * Returns a target that is spelled in an odd way.
 *
 * @param {Random} random
 */
export function oddTarget(random) {
  let target = random.pick(BASES);
  for (let changes = random.pick([1, 1, 1, 2, 2, 3]); changes > 0; changes--)
    target = random.pick(CHANGES)(target, random);
  return target;
}

/** @type {((target: string, random: Random) => string)[]} */
const CHANGES = [
  (target, random) => replaced(target, random.below(target.length), 1, escape),
  (target, random) => replaced(target, random.below(target.length), 1, (char) => escape(char).replace('%', '%25')),
  ...Array(3).fill((/** @type {string} */ target, /** @type {Random} */ random) => replaced(target, random.below(target.length + 1), 0, () => random.pick(ODD))),
  (target, random) => replaced(target, random.below(target.length), 99, (text) => (random.oneIn(2) ? text.toUpperCase() : text.toLowerCase())),
  (target, random) => `${target}${random.pick(['/', ';', '//', '/.'])}${random.pick(WORDS)}`,
  (target, random) => {
    const segments = target.split('/');
    const at = random.below(segments.length);
    return segments.with(at, segments[at].replace(/./g, escape)).join('/');
  },
]; // prettier-ignore

/** @param {string} text @param {number} at @param {number} length @param {(text: string) => string} by */
function replaced(text, at, length, by) {
  return text.slice(0, at) + by(text.slice(at, at + length)) + text.slice(at + length);
}

/** @param {string} char */
function escape(char) {
  return `%${char.charCodeAt(0).toString(16).padStart(2, '0')}`;
}

/**
 * Compares the rule of each target that Latchkey forwards with the handler that serves it.
 *
 * @param {(target: string) => Judged | null} judge null: refused
 * @param {readonly Router[]} routers
 * @param {Iterable<string>} targets
 */
export async function compare(judge, routers, targets) {
  /** @type {string[]} */
  const differences = [];
  let forwarded = 0;
  for (const target of targets) {
    const judged = /^\/[!-~]*$/.test(target) ? judge(target) : null;
    if (judged === null) continue;
    forwarded += 1;
    await Promise.all(
      routers.map(async ({ name, ask }) => {
        const served = await ask(target);
        if (served !== null && !isWithin(served, judged))
          differences.push(`${target}: judged as ${told(judged)}, served by ${name} as ${told(served)}`);
      }),
    );
  }
  return { forwarded, differences };
}

/**
 * Whether the handler is the one that the rule is about. Anybody may reach an open one.
 *
 * @param {Judged} served
 * @param {Judged} judged
 */
function isWithin(served, judged) {
  if (served.tag === 'open') return true;
  if (served.tag !== judged.tag) return false;
  if (judged.sid === null) return true;
  // Routers differ on whether they decode parameters.
  const wanted = decodeURIComponent(judged.sid);
  return served.sid === wanted || unescape(served.sid ?? '') === wanted;
}

/** @param {Judged} one */
function told({ tag, sid }) {
  return `${tag}${sid == null ? '' : ` of ${sid}`}`;
}
