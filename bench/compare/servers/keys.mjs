// The check that a service would put in front of a proxy library: is the key one of those it knows?
import { readFileSync } from 'node:fs';

/**
 * The keys of a file, one a line, each with whose it is.
 *
 * @param {string} file
 * @returns {Map<unknown, string>}
 */
export function readKeys(file) {
  return new Map(readFileSync(file, 'utf8').split('\n').filter(Boolean).map((key, index) => [key, `user${index % 100}`]));
} // prettier-ignore

/**
 * Whether a request has a key; else it is answered.
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
