import { endpoint, type Resource } from './endpoint.js';
import { openApi } from './schema/responses.js';

export const interfaceDescription = {
  tag: 'Interface',
  description: 'This document',
  endpoints: [
    endpoint({
      name: 'show_interface',
      method: 'GET',
      path: '/_latchkey/openapi.json',
      credential: 'none',
      summary: 'Show this document',
      response: openApi,
      handle: async (_call, { interfaceDocument }) => ({ status: 200, content: await interfaceDocument() }),
    }),
  ],
} as const satisfies Resource;
