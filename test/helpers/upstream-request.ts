import { UNFRAMED } from '../../src/http1/write.js';
import type { UpstreamRequest } from '../../src/upstream/upstream-request.js';

/** A request without a body, in the form that a pool takes. */
export const GET: UpstreamRequest = {
  method: 'GET',
  target: '/',
  host: 'upstream',
  fields: [],
  body: undefined,
  length: UNFRAMED,
  closes: false,
};
