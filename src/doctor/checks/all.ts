import type { Check } from '../check.js';
import { addresses } from './addresses.js';
import { authentication, credentials } from './authentication.js';
import { caches } from './caches.js';
import { clock } from './clock.js';
import { cookies } from './cookies.js';
import { cors } from './cors.js';
import { disclosure } from './disclosure.js';
import { framing } from './framing.js';
import { http2 } from './http2.js';
import { identityHeaders } from './identity.js';
import { overrides } from './overrides.js';
import { pathReadings } from './paths.js';
import { adminPort, decisionPort } from './ports.js';
import { proxyAdmin } from './proxy-admin.js';
import { rate } from './rate.js';
import { redirects } from './redirects.js';
import { exemptions, options } from './requests.js';
import { tls } from './tls.js';
import { upstream } from './upstream.js';

/** Every check, in the order of the report. The last ones examine the responses to the others. */
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
  proxyAdmin,
  framing,
  http2,
  cors,
  redirects,
  caches,
  tls,
  rate,
  cookies,
  disclosure,
  clock,
];
