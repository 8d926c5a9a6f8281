/** Characters of a field name other than letters and digits (RFC 9110 5.6.2). */
export const SEPARATORS = "!#$%&'*+-.^_`|~";

/**
 * Names that no client may send, as their readers spell them. Forging any of them would be useful
 * to an attacker.
 */
export const PROTECTED: readonly string[] = [
  // who is calling
  ...['User-Id', 'Customer-Id', 'Login', 'Role', 'Scope', 'Services', 'Credential', 'Token-Id', 'Assertion'].map((name) => `X-Auth-${name}`),
  // credentials
  'Service-Key', 'Service-OTP',
  // another method, target or host
  'X-HTTP-Method', 'X-HTTP-Method-Override', 'X-Method-Override', 'X-Original-Method', 'X-Original-URL', 'X-Original-URI', 'X-Original-Path',
  'X-Override-URL', 'X-Rewrite-URL', 'X-Rewrite-URI', 'X-Envoy-Original-Path', 'X-Envoy-Original-Method', 'X-Host', 'X-HTTP-Host-Override',
  'X-Original-Host', 'Script-Name', 'Path-Info', 'X-Script-Name', 'X-Sendfile-Type', 'X-Accel-Mapping', 'X-Original-Proto', 'X-Url-Scheme', 'Front-End-Https',
  // an address, or other facts that only a proxy knows
  'Client-IP', 'CF-Connecting-IP', 'CF-Connecting-IPv6', 'CF-Pseudo-IPv4', 'Fastly-Client-IP', 'X-Client-IP', 'X-Forwarded', 'X-Forwarded-By',
  'X-Forwarded-Port', 'X-Forwarded-Prefix', 'X-Forwarded-User', 'X-Forwarded-Client-Cert', 'Forwarded-For', 'X-Cluster-Client-IP', 'True-Client-IP',
  'X-Real-IP', 'X-Originating-IP', 'X-Remote-IP', 'X-Remote-Addr', 'X-ProxyUser-Ip', 'WL-Proxy-Client-IP', 'Proxy-Client-IP', 'X-Azure-ClientIP',
  'X-Azure-SocketIP', 'X-Appengine-User-IP', 'X-Envoy-External-Address', 'Remote-Addr', 'X-Original-For', 'Client-Cert', 'Client-Cert-Chain',
]; // prettier-ignore

/** Names that are forwarded, although they resemble protected ones. */
export const FREE: readonly string[] = [
  'X-Method', 'X-Original-Filename', 'X-Auth', 'X-Auth-Token', 'X-Auth-Role-Hint', 'X-Url', 'Uri', 'X-Rewrite', 'Service', 'X-Service-Key', 'X~Other', 'X_Other', 'X-Requested-With',
]; // prettier-ignore

/** Replaces each `-` of a name with another character. */
export function spelledWith(name: string, separator: string): string {
  return name.replaceAll('-', separator);
}

/** Returns the variable name that the most lenient gateway derives from a field name. */
export function variableOf(name: string): string {
  return name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_');
}
