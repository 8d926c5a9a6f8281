/** The built-in policy and routes. A configuration that sets one of these keys replaces it. */

export const ROLES = {
  superuser: { allow: ['*'] },
  engineer: {
    allow: ['*'],
    deny: [
      'billing:*',
      'user:write',
      'invitation:write',
      'service_authorization:write',
      'token:*',
      'customer_token:*',
    ],
  },
  billing: { allow: ['*:read', 'billing:*', 'token:write'] },
  user: { allow: ['*:read'], deny: ['billing:*', 'token:*', 'customer_token:*'] },
};

export const SCOPES = {
  global: { allow: ['*'] },
  'global:read': { allow: ['*:read'] },
  purge_select: { allow: ['purge:select'] },
  purge_all: { allow: ['purge:all'] },
};

/** Actions that no service-limited token may perform: authorize services, invite, create or modify users. */
export const SERVICE_LIMITED = { deny: ['service_authorization:write', 'invitation:write', 'user:write'] };

function resource(action: string, ...paths: string[]) {
  return paths.flatMap((path) => [
    { path, action },
    { path: `${path}/*`, action },
  ]);
}

const SERVICE = 'service_id';

export const ROUTES = [
  { path: '/service/:service_id/purge_all', methods: ['POST'], action: 'purge:all', service: SERVICE },
  { path: '/service/:service_id/purge', methods: ['POST'], action: 'purge:select', service: SERVICE },
  { path: '/service/:service_id/purge/*', methods: ['POST'], action: 'purge:select', service: SERVICE },
  { path: '/purge/*', methods: ['POST'], action: 'purge:select' },
  { path: '/*', methods: ['PURGE'], action: 'purge:select' },
  { path: '/service/:service_id', action: 'service', service: SERVICE },
  { path: '/service/:service_id/*', action: 'service', service: SERVICE },
  ...resource('billing', '/billing'),
  { path: '/user/:user_id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'user_id' },
  ...resource('user', '/user', '/users'),
  ...resource('invitation', '/invitation', '/invitations'),
  ...resource('service_authorization', '/service_authorization', '/service_authorizations'),
  ...resource('service_authorization', '/service-authorization', '/service-authorizations'),
];
