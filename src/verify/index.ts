// Entry point of `latchkey/verify`, for upstreams. From the rest of Latchkey it imports only header
// names.
export { AssertionRefused, KeysUnavailable, type RefusalBody, type RefusalCode } from './errors.js';
export { fastifyPlugin, type FastifyLike } from './fastify.js';
export { honoMiddleware, type HonoContextLike } from './hono.js';
export {
  applyIdentity,
  expressMiddleware,
  nodeMiddleware,
  type NodeRequest,
  type NodeResponse,
} from './node.js';
export type { AssertionClaims, VerifyOptions } from './options.js';
export { identityOf } from './outcome.js';
export type { VerifiableRequest } from './request.js';
export { verifyAssertion } from './verify.js';
