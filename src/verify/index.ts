// src/verify: what upstreams import as `latchkey/verify`.
// May import names of headers only.
// Nothing else may import it.

export { AssertionRefused, KeysUnavailable, type RefusalBody, type RefusalCode } from './errors.js';
export { fastifyPlugin, type FastifyLike } from './frameworks.js';
export { honoMiddleware, type HonoContextLike } from './frameworks.js';
export {
  applyIdentity,
  identityOf,
  nodeMiddleware,
  nodeMiddleware as expressMiddleware,
  type NodeRequest,
  type NodeResponse,
} from './node.js';
export type { AssertionClaims, VerifyOptions } from './options.js';
export { type VerifiableRequest, verifyAssertion } from './verify.js';
