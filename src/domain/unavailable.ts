import type { Refusal } from './refusal.js';

/**
 * Something that Latchkey depends on cannot answer now.
 *
 * That is the store, the audit log, the signing keys or an API of users.
 */
export class Unavailable extends Error {
  /**
   * Refusal of the affected request. It is not let through, and not answered with a login prompt.
   */
  readonly refusal: Refusal;

  constructor(refusal: Refusal, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Unavailable';
    this.refusal = refusal;
  }
}
