import type { Handler } from '../endpoints/endpoints.js';
import type { Gate } from '../gate/gate.js';
import type { Identify } from '../gate/identity.js';
import type { BodyLimits } from '../http/read-body.js';
import type { FieldSplitter } from '../http/joined-fields.js';
import type { HeadReader } from '../http/read-head.js';
import type { Log } from '../observe/log.js';
import type { Tracing } from '../observe/tracing.js';
import type { ForwardAuthHeaders } from '../upstream/forward-auth-headers.js';
import type { Forward } from '../upstream/forward-request.js';
import type { RequestHeaders } from '../upstream/request-headers.js';
import type { Upgrade } from '../upstream/upgrade.js';
import type { Upstream } from '../upstream/upstreams.js';
import type { AccessLog } from './access-log.js';
import type { Auditor } from './auditor.js';
import type { CorsRules } from './cors-rules.js';
import type { ExpiryWarning, RateLimitNames } from './response-fields.js';
import type { Shadow } from './shadow.js';
import type { FaultLog } from './faults.js';

/** What requests of one configuration are served with. */
export interface Services {
  readonly readHead: HeadReader;
  readonly bodyLimits: BodyLimits;
  readonly gate: Gate;
  /** null: no other policy is judged. */
  readonly shadow: Pick<Shadow, 'judge'> | null;
  /** The handler of a built-in endpoint, by the name in its rule. */
  readonly handlerOf: (name: string) => Handler;
  /** Where a browser that requested `/` of a host in vain is redirected; null for nowhere. */
  readonly homeOf: (host: string) => string | null;
  /** The path of the web page, where browsers may log in for what else is on this host; null when there is none. */
  readonly loginPage: string | null;
  readonly requestHeaders: RequestHeaders;
  readonly forward: Forward;
  readonly upgrade: Upgrade;
  readonly decisionHeaders: ForwardAuthHeaders;
  readonly splitJoined: FieldSplitter;
  readonly identify: Identify;
  /** Assertions are bound to their request (`identity.assertion.bind`). */
  readonly bindsAssertions: boolean;
  readonly rateLimitNames: RateLimitNames;
  /** null: no answer names an expiry. */
  readonly expiryWarning: ExpiryWarning | null;
  readonly upstreamOf: (name: string) => Upstream;
  /** Name of the upstream of a route that names none. */
  readonly defaultUpstream: string;
  readonly log: Log;
  readonly accessLog: AccessLog;
  /** undefined while tracing is off. */
  readonly tracing: Tracing | undefined;
  /** null where no route has CORS. */
  readonly cors: CorsRules | null;
  readonly auditor: Auditor;
  readonly logFault: FaultLog;
}
