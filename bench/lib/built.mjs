/**
 * @typedef {{
 *   'accounts/last-seen': typeof import('../../src/accounts/last-seen.js'),
 *   'commands/check': typeof import('../../src/commands/check.js'),
 *   'config/load': typeof import('../../src/config/load.js'),
 *   'config/policy': typeof import('../../src/config/policy.js'),
 *   'config/schema-walk': typeof import('../../src/config/schema-walk.js'),
 *   'config/schema/config': typeof import('../../src/config/schema/config.js'),
 *   'config/schema/directory-file': typeof import('../../src/config/schema/directory-file.js'),
 *   'domain/secret': typeof import('../../src/domain/secret.js'),
 *   'endpoints/openapi/document': typeof import('../../src/endpoints/openapi/document.js'),
 *   'gate/authenticate': typeof import('../../src/gate/authenticate.js'),
 *   'gate/gate': typeof import('../../src/gate/gate.js'),
 *   'gate/identity': typeof import('../../src/gate/identity.js'),
 *   'gate/ownership': typeof import('../../src/gate/ownership.js'),
 *   'gate/what-if': typeof import('../../src/gate/what-if.js'),
 *   'net/socket': typeof import('../../src/net/socket.js'),
 *   'http1/events': typeof import('../../src/http1/events.js'),
 *   'http/client-address': typeof import('../../src/http/client-address.js'),
 *   'http/read-head': typeof import('../../src/http/read-head.js'),
 *   'http1/request-parser': typeof import('../../src/http1/request-parser.js'),
 *   'http1/response-parser': typeof import('../../src/http1/response-parser.js'),
 *   'http1/write': typeof import('../../src/http1/write.js'),
 *   'listeners/accepted-socket': typeof import('../../src/listeners/accepted-socket.js'),
 *   'pipeline/shadow': typeof import('../../src/pipeline/shadow.js'),
 *   'server/interface-document': typeof import('../../src/server/interface-document.js'),
 *   'store/endings': typeof import('../../src/store/endings.js'),
 *   'store/cache/token-cache': typeof import('../../src/store/cache/token-cache.js'),
 *   'store/lmdb': typeof import('../../src/store/lmdb.js'),
 *   'store/lmdb/environment': typeof import('../../src/store/lmdb/environment.js'),
 *   'store/link': typeof import('../../src/store/link.js'),
 *   'store/redis': typeof import('../../src/store/redis.js'),
 *   'store/redis/invalidation': typeof import('../../src/store/redis/invalidation.js'),
 *   'store/revocations': typeof import('../../src/store/revocations.js'),
 * }} Modules
 */

/**
 * Imports a module of `dist` with the types of its source, so that type checking needs no build.
 *
 * @template {keyof Modules} Name
 * @param {Name} name
 * @returns {Promise<Modules[Name]>}
 */
export const built = (name) => import(new URL(`../../dist/${name}.js`, import.meta.url).href);
