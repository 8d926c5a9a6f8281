// Faults in the security rules, of the kinds that people make: a skipped check, a wrong comparison,
// a missing strip, a stale cache. `run.mjs` plants each of them and expects a test to fail.

/**
 * @typedef {object} Fault
 * @property {string} name the rule that it breaks
 * @property {string} file below src
 * @property {string} find occurs once in the file
 * @property {string} replace
 * @property {string[]} tests files below test, at least one of which fails
 */

/** @type {Fault[]} */
export const FAULTS = [
  { name: 'a locked owner', file: 'gate/authenticate.ts', find: 'found.owner.locked) return INVALID;\n  const { token', replace: 'found.owner.login === "") return INVALID;\n  const { token', tests: ['gate/gate.test.ts'] },
  { name: 'a suspended token', file: 'gate/authenticate.ts', find: 'if (token.restrictions?.suspended === true) return INVALID;', replace: '', tests: ['acceptance/token-limits.test.ts'] },
  { name: 'an expired token', file: 'domain/token.ts', find: 'now >= token.expiresAt ||', replace: 'now > token.expiresAt + 86_400_000 ||', tests: ['acceptance/tokens.test.ts', 'store/lmdb.test.ts'] },
  { name: 'a rotation without overlap', file: 'domain/token.ts', find: '|| token.rotated?.atOnce === true', replace: '', tests: ['accounts/token-rotations.test.ts', 'endpoints/token-rotation.test.ts'] },
  { name: 'an idle session', file: 'domain/session.ts', find: 'now < session.idleEndsAt;', replace: 'now < Infinity;', tests: ['accounts/sessions.test.ts'] },
  { name: 'an invalid key beside a valid session', file: 'gate/authenticate.ts', find: 'if (head.key !== undefined)\n', replace: 'if (head.key !== undefined && head.session === undefined)\n', tests: ['gate/gate.test.ts', 'acceptance/gate.test.ts'] },
  { name: 'a JWT where none is accepted', file: 'gate/request-rules.ts', find: "if (subject.credential === 'jwt' && !endpoint.acceptsJwt) {", replace: "if (subject.credential === 'jwt' && endpoint.acceptsJwt === undefined) {", tests: ['acceptance/jwt-issuers.test.ts', 'gate/gate.test.ts'] },
  { name: 'CSRF with a session', file: 'gate/gate.ts', find: '(isAmbient(subject, head) ? refuseCrossOrigin(head, this.#parts.sites.ownOrigins) : undefined) ??', replace: '', tests: ['acceptance/shared-origin.test.ts', 'acceptance/refusals.test.ts', 'acceptance/cors.test.ts'] },
  { name: 'a WebSocket from another site', file: 'gate/request-rules.ts', find: 'if (isRead(head.method) && !head.webSocket) return undefined;', replace: 'if (isRead(head.method)) return undefined;', tests: ['acceptance/websocket.test.ts', 'acceptance/refusals.test.ts'] },
  { name: 'an http origin over TLS', file: 'gate/request-rules.ts', find: '(!secure && hasOrigin(origin', replace: '(hasOrigin(origin', tests: ['gate/request-rules.test.ts'] },
  { name: 'a service worker', file: 'gate/gate.ts', find: 'if (unfit !== undefined) return refused(unfit, route, action, null);', replace: '', tests: ['acceptance/refusals.test.ts', 'browser/service-workers.test.ts'] },
  { name: 'a body on a read', file: 'gate/gate.ts', find: 'if (expectsNoBody(head.method) && !route.allowsBodyOnRead && head.hasBody)', replace: 'if (expectsNoBody(head.method) && !route.allowsBodyOnRead && !head.hasBody && head.hasBody)', tests: ['acceptance/body-on-read.test.ts'] },
  { name: 'the scope of a token', file: 'policy/decide.ts', find: 'if (!scope.allowed) return scope;', replace: '', tests: ['policy/decide.test.ts', 'acceptance/tokens.test.ts'] },
  { name: 'the services of a token', file: 'policy/decide.ts', find: 'if (!within.allowed) return within;', replace: '', tests: ['policy/decide.test.ts', 'hostile/service.test.ts'] },
  { name: 'a request without a service', file: 'policy/decide.ts', find: 'service === null || (service !== undefined && token.services.includes(service))', replace: 'service == null || token.services.includes(service)', tests: ['policy/decide.test.ts', 'hostile/service.test.ts'] },
  { name: 'another customer’s token', file: 'gate/ownership.ts', find: 'id === subject.user.customerId\n', replace: 'id !== ""\n', tests: ['endpoints/endpoints.test.ts', 'acceptance/tokens.test.ts', 'acceptance/refusals.test.ts'] },
  { name: 'a token that issues more than it has', file: 'gate/ownership.ts', find: 'if (isLimited && this.#policy.tokenIncludes(subject.token, token)) return undefined;', replace: 'return undefined;', tests: ['endpoints/token-rotation.test.ts', 'acceptance/rotation.test.ts'] },
  { name: 'the addresses of a token', file: 'gate/authenticate.ts', find: 'compiled.isIn = isInRanges(compiled.ranges, address);', replace: 'compiled.isIn ||= isInRanges(compiled.ranges, address);', tests: ['acceptance/token-limits.test.ts', 'endpoints/token-limits.test.ts'] },
  { name: 'two framings', file: 'http/read-head.ts', find: "if (length !== undefined) return 'both Content-Length and Transfer-Encoding were sent';", replace: '', tests: ['http/read-head.test.ts', 'hostile/malformed.test.ts', 'hostile/attack-cases.test.ts'] },
  { name: 'a repeated credential field', file: 'http/read-head.ts', find: 'return several(`the header ${name} was sent more than once`);', replace: "return { refusal: 'unauthenticated' };", tests: ['acceptance/refusals.test.ts', 'hostile/attack-cases.test.ts', 'http/read-head.test.ts'] },
  { name: 'identity headers of clients', file: 'upstream/request-headers.ts', find: "if (fields.has(folded)) return 'drop';", replace: "if (fields.has(name.toLowerCase())) return 'drop';", tests: ['acceptance/identity.test.ts', 'hostile/names.test.ts', 'hostile/attack-cases.test.ts'] },
  { name: 'the session cookie at the upstream', file: 'upstream/request-headers.ts', find: 'return forwardCredentials ? ownCookies : [...credentialCookies, ...ownCookies];', replace: 'return forwardCredentials ? ownCookies : ownCookies;', tests: ['acceptance/own-cookies.test.ts', 'acceptance/identity.test.ts'] },
  { name: 'a token in Authorization at the upstream', file: 'upstream/request-headers.ts', find: 'return !holdsToken(value) && !holdsJwt(value);', replace: 'return !holdsJwt(value);', tests: ['acceptance/bearer.test.ts'] },
  { name: 'a session cookie of the upstream', file: 'upstream/response.ts', find: 'if (maySetCookie(value, ownCookies)) continue;', replace: 'if (maySetCookie(value, ownCookies) && value === "") continue;', tests: ['acceptance/own-cookies.test.ts', 'upstream/response-headers.test.ts'] },
  { name: 'a service worker of the upstream', file: 'upstream/response.ts', find: 'if (!allowsServiceWorker) continue;', replace: '', tests: ['upstream/response-headers.test.ts'] },
  { name: 'a stale cache', file: 'store/cache/token-cache.ts', find: 'if (this.#coverage.isCurrent(now)) {', replace: 'if (now >= 0) {', tests: ['store/cached.test.ts', 'faults/redis-link.test.ts'] },
  { name: 'a change that stays in the cache', file: 'store/cache/token-cache.ts', find: 'this.#drop(changedByKey(names).keys());', replace: '', tests: ['store/cached.test.ts', 'acceptance/fleet.test.ts'] },
  { name: 'a one-time password used twice', file: 'accounts/stored-accounts.ts', find: "isFirst ? 'accepted' : 'used'", replace: "isFirst ? 'accepted' : 'accepted'", tests: ['acceptance/tokens.test.ts', 'accounts/login.test.ts'] },
  { name: 'sudo for another account', file: 'accounts/login.ts', find: 'if (caller !== undefined && loginKey(login) !== loginKey(caller.login)) return OTHER_USER;', replace: '', tests: ['acceptance/account.test.ts'] },
  { name: 'the audience of a JWT', file: 'accounts/jwt/subjects.ts', find: 'some((each) => accepted.includes(each))', replace: 'some(() => true)', tests: ['accounts/jwt.test.ts', 'acceptance/jwt-issuers.test.ts'] },
  { name: 'an unverified email', file: 'accounts/oidc/claims.ts', find: "const isVerified = [true, 'true'].includes(claims['email_verified'] as boolean | string);", replace: "const isVerified = claims['email_verified'] !== false;", tests: ['endpoints/oidc.test.ts'] },
  { name: 'an ID token as a logout token', file: 'accounts/oidc/signed.ts', find: "  if (nonce !== undefined) return 'it has the claim nonce, like an ID token';\n", replace: '', tests: ['acceptance/oidc.test.ts', 'endpoints/oidc.test.ts'] },
  { name: 'DNS rebinding at the admin port', file: 'server/admin.ts', find: 'if (host !== undefined && !isOwnHost(host, known))', replace: 'if (host === undefined)', tests: ['acceptance/admin-guard.test.ts'] },
  { name: 'a webhook to a private address', file: 'net/pinned-lookup.ts', find: "if (isInRanges(PRIVATE, address)) return 'private';", replace: "if (isInRanges(PRIVATE, address)) return 'public';", tests: ['net/addresses.test.ts', 'webhooks/deliver.test.ts'] },
]; // prettier-ignore
