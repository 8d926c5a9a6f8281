import { readRequests, valuesOf } from '../../test/helpers/strict.mjs';

/** @import { StrictRequest } from '../../test/helpers/strict.mjs' */
/** @import { SeenRequest } from '../../test/helpers/wire.mjs' */
/** @import { Input } from './execute.mjs' */
/** @import { Secret, Secrets } from './subject.mjs' */
/**
 * @typedef {object} SentInput
 * @property {Input} input
 * @property {string} address where it is sent from
 * @property {Buffer} bytes
 * @property {StrictRequest[] | undefined} strict its requests, if it is well-formed
 * @property {Secret[]} held the credentials in it
 */

/** Inputs whose requests may still be on their way, abandoned ones included. */
const KEPT = 200;

/**
 * The inputs sent last. Each is sent from a loopback address of its own, which the server must pass
 * on in `X-Forwarded-For`: so each forwarded request belongs to exactly one input, however late it
 * is and whatever the input is.
 */
export class SentInputs {
  #count = 0;
  /** @type {Map<string, SentInput>} */
  #byAddress = new Map();

  /**
   * @param {Input} input
   * @param {Buffer} bytes
   * @param {Secrets} secrets
   */
  add(input, bytes, secrets) {
    const n = ++this.#count;
    const address = `127.${1 + ((n >> 14) % 254)}.${1 + ((n >> 7) & 127)}.${1 + (n & 127)}`;
    const text = bytes.toString('latin1');
    const held = Object.values(secrets).filter(({ secret }) => text.includes(secret));
    const sent = { input, address, bytes, strict: readRequests(bytes), held };
    this.#byAddress.delete(address);
    this.#byAddress.set(address, sent);
    const [oldest] = this.#byAddress.keys();
    if (this.#byAddress.size > KEPT && oldest !== undefined) this.#byAddress.delete(oldest);
    return sent;
  }

  /** @param {SeenRequest} request */
  sender(request) {
    return this.#byAddress.get(senderOf(request));
  }
}

/**
 * Returns the address that a forwarded request was sent from.
 *
 * @param {SeenRequest} request
 */
export function senderOf({ fields }) {
  return valuesOf(fields, 'x-forwarded-for').join();
}
