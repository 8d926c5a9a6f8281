// The check that a service would put in front of a proxy library: whether the key is known.
import { readFileSync } from 'node:fs';

/**
 * Reads a file of keys, one per line, and maps each to its owner.
 *
 * @param {string} file
 * @returns {Map<unknown, string>}
 */
export function readKeys(file) {
  return new Map(readFileSync(file, 'utf8').split('\n').filter(Boolean).map((key, index) => [key, `user${index % 100}`]));
} // prettier-ignore

/**
 * Returns whether a request has a known key; if not, responds to it.
 *
 * @param {ReturnType<typeof readKeys>} keys
 * @param {import('node:http').IncomingMessage} req
 * @param {import('node:http').ServerResponse} res
 */
export function admits(keys, req, res) {
  if (keys.has(req.headers['service-key'])) return true;
  res.writeHead(401, { 'Content-Type': 'application/json' });
  res.end('{"msg":"Provided credentials are missing or invalid"}');
  return false;
}
