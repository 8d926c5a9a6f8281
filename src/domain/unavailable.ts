import type { Refusal } from './refusal.js';

/** Something that Latchkey relies on cannot answer now: the store, the audit log, the signing keys, an API of users. */
export class Unavailable extends Error {
  /** The refusal of the request that ran into it. It is never let through and never asked to log in again. */
  readonly refusal: Refusal;

  constructor(refusal: Refusal, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Unavailable';
    this.refusal = refusal;
  }
}
