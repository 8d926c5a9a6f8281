import type { Handler } from '../endpoints/endpoints.js';
import type { Gate } from '../gate/gate.js';
import type { Identify } from '../gate/identity.js';
import type { AcceptedSchemes } from '../http/authorization.js';
import type { Challenge } from '../http/replies.js';
import type { BodyLimits } from '../http/read-body.js';
import type { FieldSplitter } from '../http/fields.js';
import type { HeadReader } from '../http/read-head.js';
import type { Log } from '../observe/log.js';
import type { Endings } from '../store/endings.js';
import type { Tracing } from '../observe/tracing/spans.js';
import type { ForwardAuthHeaders, RequestHeaders } from '../upstream/request-headers.js';
import type { Forward } from '../upstream/forward.js';
import type { Upgrade } from '../upstream/upgrade.js';
import type { Upstreams } from '../upstream/upstreams.js';
import type { AccessLog } from './access-log.js';
import type { Auditor } from './auditor.js';
import type { CorsRules, LoginPages } from './browsers.js';
import type { ExpiryWarning, RateLimitNames } from './record.js';
import type { Shadow } from './shadow.js';
import type { FaultLog, ReportMisconfiguration } from './faults.js';

/** What new requests are served with. A reload replaces the services; a request keeps those it began with. */
export interface Serving {
  readonly services: Services;
  /** Whether the server is shutting down. */
  readonly isDraining: boolean;
}

export interface Services {
  readonly pages: LoginPages;
  readonly readHead: HeadReader;
  readonly schemes: AcceptedSchemes;
  readonly challenge: Challenge;
  readonly bodyLimits: BodyLimits;
  readonly gate: Gate;
  /** Judges a request again that was already counted ({@link Gate.forRecheck}). */
  readonly recheckGate: Gate;
  /** Whether a verdict of a time may be wrong by now. */
  readonly endings: Pick<Endings, 'hasEndedSince'>;
  /** Null when there is no shadow policy. */
  readonly shadow: Pick<Shadow, 'compare'> | null;
  readonly handlerOf: (name: string) => Handler;
  readonly requestHeaders: RequestHeaders;
  readonly forward: Forward;
  readonly upgrade: Upgrade;
  readonly decisionHeaders: ForwardAuthHeaders;
  readonly splitJoined: FieldSplitter;
  readonly identify: Identify;
  /** Whether assertions are bound to their request (`identity.assertion.bind`). */
  readonly bindsAssertions: boolean;
  readonly rateLimitNames: RateLimitNames;
  readonly expiryWarning: ExpiryWarning | null;
  readonly upstreams: Pick<Upstreams, 'named'>;
  readonly log: Log;
  readonly accessLog: AccessLog;
  readonly tracing: Tracing | undefined;
  readonly cors: CorsRules | null;
  readonly auditor: Auditor;
  readonly logFault: FaultLog;
  readonly reportMisconfiguration: ReportMisconfiguration;
}
