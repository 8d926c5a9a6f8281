import type { Caller } from './api.js';

export const PROGRAMS = ['curl', 'git', 'Docker', 'npm', 'pip', 'Prometheus', 'an MCP client'] as const;
export type Program = (typeof PROGRAMS)[number];

/** What to copy, and where to put it; null if the configuration refuses tokens of this program. */
export type Usage = { readonly where: string; readonly text: string } | null;

type Settings = Pick<Caller, 'key_field' | 'accepts' | 'public_url'>;

/**
 * @param secret letters and digits
 * @param pageOrigin the address unless `login.public_url` is set
 */
export function usageOf(program: Program, secret: string, settings: Settings, pageOrigin: string): Usage {
  const { key_field: field, accepts } = settings;
  const { origin, protocol, host } = new URL(settings.public_url ?? pageOrigin);
  const withPassword = `${protocol}//token:${secret}@${host}`;
  switch (program) {
    case 'curl':
      return { where: 'In a shell', text: `curl -H '${field}: ${secret}' ${origin}/tokens/self` };
    case 'git':
      return accepts.basic ? { where: 'In a shell', text: `git clone ${withPassword}/REPOSITORY.git` } : null;
    case 'Docker':
      if (!accepts.basic) return null;
      return { where: 'In a shell', text: `echo ${secret} | docker login ${host} -u token --password-stdin` };
    case 'npm': {
      if (!accepts.bearer && !accepts.basic) return null;
      const key = accepts.bearer ? `_authToken=${secret}` : `_auth=${btoa(`token:${secret}`)}`;
      return { where: 'In the file .npmrc', text: `registry=${origin}/\n//${host}/:${key}` };
    }
    case 'pip':
      if (!accepts.basic) return null;
      return { where: 'In a shell', text: `pip install --index-url ${withPassword}/simple/ PACKAGE` };
    case 'Prometheus': {
      const sent = accepts.bearer
        ? `authorization:\n      credentials: ${secret}`
        : `http_headers:\n      ${field}: { secrets: [${secret}] }`;
      const job = ['job_name: api', `scheme: ${protocol.slice(0, -1)}`, sent, `static_configs: [{ targets: ['${host}'] }]`];
      return { where: 'In prometheus.yml', text: `scrape_configs:\n  - ${job.join('\n    ')}` };
    }
    case 'an MCP client': {
      const headers = accepts.bearer ? { Authorization: `Bearer ${secret}` } : { [field]: secret };
      const mcpServers = { api: { type: 'http', url: `${origin}/mcp`, headers } };
      return { where: 'In its configuration', text: JSON.stringify({ mcpServers }, null, 2) };
    }
  }
} // prettier-ignore
