import { endpoint, type Resource } from './endpoint.js';

/** Readiness at the public port, for load balancers that probe only there (`listen.ready_path`). */
export const readiness = {
  tag: 'Readiness',
  description: 'Whether this process serves requests',
  base: ({ readyPath }) => readyPath,
  endpoints: [
    endpoint({
      name: 'show_readiness',
      method: 'GET',
      path: '',
      credential: 'none',
      summary: null,
      response: null,
      success: 200,
      handle: async (_call, { isReady }) => ({ status: (await isReady()) ? 200 : 503 }),
    }),
  ],
} as const satisfies Resource;
