import type { Check } from '../check.js';
import { authentication, credentials } from './authentication.js';
import { clock } from './clock.js';
import { cookies } from './cookies.js';
import { cors } from './cors.js';
import { framing } from './framing.js';
import { http2 } from './http2.js';
import { identityHeaders } from './identity.js';
import { overrides } from './overrides.js';
import { pathReadings } from './paths.js';
import { adminPort, decisionPort } from './ports.js';
import { rate } from './rate.js';
import { addresses, exemptions, options } from './requests.js';
import { tls } from './tls.js';
import { upstream } from './upstream.js';

/** Every check, in the order of the report. The last ones look at answers that the others got. */
export const CHECKS: readonly Check[] = [
  authentication,
  credentials,
  upstream,
  identityHeaders,
  overrides,
  pathReadings,
  exemptions,
  options,
  addresses,
  adminPort,
  decisionPort,
  framing,
  http2,
  cors,
  tls,
  rate,
  cookies,
  clock,
];
