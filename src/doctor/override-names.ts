/** Fields in which some server or framework accepts another method from a client. */
export const METHODS: readonly string[] = [
  'X-HTTP-Method-Override',
  'X-HTTP-Method',
  'X-Method-Override',
  'X-Original-Method',
  'X-Forwarded-Method',
  'X-Envoy-Original-Method',
];

/** Fields in which some server or framework accepts another target from a client. */
export const TARGETS: readonly string[] = [
  'X-Original-URL',
  'X-Rewrite-URL',
  'X-Override-URL',
  'X-Original-URI',
  'X-Rewrite-URI',
  'X-Forwarded-Uri',
  'X-Forwarded-Path',
  'X-Forwarded-Prefix',
  'X-Request-URI',
  'X-Original-Path',
  'X-Rewrite-Path',
  'X-Proxy-URL',
  'X-Envoy-Original-Path',
  'X-Replaced-Path',
  'X-Original-Prefix',
  'X-Original-Request-URI',
  'X-WAWS-Unencoded-URL',
  'X-HTTP-Destinationurl',
  'Proxy-URL',
  'X-Script-Name',
  'Request-URI',
  'Path-Info',
  'Script-Name',
];
