// What the answers of a history mean.

/** @import { Operation } from './record.mjs' */
/** @typedef {'done' | 'not_done' | 'accepted' | 'refused' | 'unknown' | 'unexpected'} Meaning */

/** 408: a connection without a request reached its limit while the sidecar was stopped. */
const UNAVAILABLE = new Set([408, 502, 503, 504]);
/** @type {Record<number, Meaning>} */
const LIMIT_CHANGE = { 200: 'done', 404: 'refused' };
/** @type {Record<Operation['op'], Record<number, Meaning>>} */
const MEANINGS = {
  create: { 200: 'done', 400: 'not_done', 429: 'not_done' },
  use: { 200: 'accepted', 401: 'refused' },
  revoke: { 200: 'done', 204: 'done', 401: 'refused', 404: 'refused' },
  suspend: LIMIT_CHANGE,
  resume: LIMIT_CHANGE,
  rotate: { 200: 'done', 401: 'refused', 404: 'refused', 422: 'not_done' },
  code: { 200: 'done', 400: 'not_done', 429: 'not_done' },
  'end-others': { 204: 'done', 401: 'not_done' },
  lock: { 200: 'done' },
  unlock: { 200: 'done' },
  'set-password': { 200: 'done' },
};

/**
 * Returns what an answer means. `unknown`: the operation may have been done.
 *
 * @param {Pick<Operation, 'op' | 'status' | 'by'>} operation
 * @returns {Meaning}
 */
export function meaningOf({ op, status, by }) {
  if (status === null || UNAVAILABLE.has(status)) return 'unknown';
  // The session that makes the change is no longer valid, which says nothing about its target.
  if (op !== 'use' && status === 401 && by !== undefined) return 'not_done';
  return MEANINGS[op][status] ?? 'unexpected';
}
