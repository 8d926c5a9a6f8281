import { UNFRAMED } from '../../src/http1/write.js';
import type { UpstreamRequest } from '../../src/upstream/upstream-request.js';

/** A request without a body, as a pool takes it. */
export const GET: UpstreamRequest = {
  method: 'GET',
  target: '/',
  host: 'upstream',
  fields: [],
  body: undefined,
  length: UNFRAMED,
  closes: false,
};
