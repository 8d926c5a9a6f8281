// src/endpoints/openapi: the OpenAPI document.
// May import what endpoints may.
// It derives from the declarations of the endpoints.

import type { GrantCode } from '../../domain/refusal.js';
import type { Endpoint, EndpointSettings, RequestBody } from '../endpoint.js';
import { type ServedEndpoint, servedResources } from '../endpoints.js';
import { createTokenRequest } from '../schema/requests.js';
import { codedProblem } from '../schema/responses.js';
import {
  ALWAYS,
  headerRefs,
  HEADERS,
  type Json,
  type RefusalAnswer,
  REFUSALS,
  refusalsOf,
  schemaOf,
  schemaRef,
  schemasOf,
} from './components.js';

export interface InterfaceSettings {
  readonly endpoints: EndpointSettings;
  /** Of the field that carries a token. */
  readonly keyName: string;
  /** Of the field that carries a one-time password. */
  readonly otpName: string;
  readonly sessionCookie: string;
  /** As `Authorization: Bearer`. */
  readonly bearer: boolean;
  readonly version: string;
}

const FORM = 'application/x-www-form-urlencoded';
const JSON_TYPE = 'application/json';

const ABOUT = `Latchkey's built-in endpoints. Every other path belongs to the upstream behind it.

- A body is a form or a JSON object with the same names, at most 64 KiB by default. Unknown parameters are
  ignored, except those that look like a restriction where a token is created or rotated.
- Later versions may add fields to responses.
- Every GET endpoint also accepts HEAD.
- Any other method, or path below a built-in one, gets 404.`;

export function interfaceDocument(settings: InterfaceSettings): Json {
  const paths: Record<string, Record<string, Json>> = {};
  const tags: Json[] = [];
  for (const { resource, endpoints } of servedResources(settings.endpoints)) {
    if (tags.at(-1)?.name !== resource.tag)
      tags.push({ name: resource.tag, description: resource.description });
    for (const each of endpoints) {
      if (each.endpoint.summary === null) continue;
      const operations = (paths[each.path.replaceAll(/:(\w+)/g, '{$1}')] ??= {});
      operations[each.endpoint.method.toLowerCase()] = describe(each, resource.tag, settings);
    }
  }
  const responses = Object.fromEntries(Object.entries(REFUSALS).map(([name, each]) => [name, refusal(each)]));
  const schemas = schemasOf(paths, responses);
  if (!maySkipPassword(settings))
    Object.assign(schemas.CreateTokenRequest as Json, { required: ['username', 'password'] });
  return {
    openapi: '3.1.1',
    info: { title: 'Latchkey', version: settings.version, description: ABOUT },
    tags,
    paths,
    components: {
      schemas,
      responses,
      headers: HEADERS,
      parameters: {
        Wait: {
          name: 'wait',
          in: 'query',
          description:
            'With `fleet`, the response is sent once every sidecar has dropped the token and closed its streams',
          schema: { type: 'string', enum: ['fleet'] },
        },
        OneTimePassword: {
          name: settings.otpName,
          in: 'header',
          description: 'The one-time password of an account with two-factor authentication',
          schema: { type: 'string' },
        },
      },
      securitySchemes: {
        token: { type: 'apiKey', in: 'header', name: settings.keyName, description: 'An API token' },
        ...(settings.bearer
          ? {
              bearer: {
                type: 'http',
                scheme: 'bearer',
                description: 'The same API token, in `Authorization`',
              },
            }
          : {}),
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: settings.sessionCookie,
          description: 'The session cookie that a login sets',
        },
      },
    },
  };
}

/** Whether a credential can count in place of a password when a token is created. */
function maySkipPassword({ endpoints: { account, oidc } }: InterfaceSettings): boolean {
  return account || oidc;
}

function describe({ endpoint, path, credential }: ServedEndpoint, tag: string, settings: InterfaceSettings): Json {
  const { name, summary, action, scopeAction, request, otp } = endpoint;
  const needs = [
    ...(action === undefined ? [] : [`Needs the action \`${action}\`.`]),
    ...(scopeAction == null ? [] : [`The scopes of a token must allow the action \`${scopeAction}\`.`]),
  ];
  const description = [endpoint.description ?? [], needs].flat().join(' ');
  const parameters = [
    ...[...path.matchAll(/:(\w+)/g)].map(([, each]) => ({ name: each, in: 'path', required: true, schema: { type: 'string' } })),
    ...(endpoint.receipt === undefined ? [] : [{ $ref: '#/components/parameters/Wait' }]),
    ...(otp === true ? [{ $ref: '#/components/parameters/OneTimePassword' }] : []),
  ];
  return {
    operationId: name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    tags: [tag],
    summary,
    ...(description === '' ? {} : { description }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(request === undefined ? {} : { requestBody: requestBody(request) }),
    security: securityOf(credential, request?.schema === createTokenRequest && maySkipPassword(settings), settings.bearer),
    responses: { ...success(endpoint), ...refusals(endpoint, credential) },
  };
} // prettier-ignore

function requestBody({ schema, form, types = [JSON_TYPE, FORM], optional }: RequestBody): Json {
  const forms = form === undefined ? {} : content([FORM], schemaRef(form));
  return { required: optional !== true, content: { ...content(types, schemaRef(schema)), ...forms } };
}

/**
 * Any of which suffices.
 * @param optional whether a credential may count where none is required
 * @param bearer whether tokens are also accepted as `Authorization: Bearer`
 */
function securityOf(credential: ServedEndpoint['credential'], optional: boolean, bearer: boolean): Json[] {
  const session = [{ session: [] }];
  const token = [{ token: [] }, ...(bearer ? [{ bearer: [] }] : [])];
  const any = [...session, ...token];
  switch (credential) {
    case 'none':
      return optional ? [{}, ...any] : [];
    case 'optional':
      return [{}, ...any];
    case 'session_or_token':
      return any;
    case 'session':
      return session;
    case 'token':
      return token;
  }
}

function success({ response, receipt, redirects, headers = [] }: Endpoint): Json {
  const fields = { headers: headerRefs([...ALWAYS, ...headers]) };
  const waited = receipt && { ...fields, content: content([JSON_TYPE], schemaRef(receipt)) };
  if (response === null)
    return {
      204: { description: 'Done', ...fields },
      ...(redirects !== undefined && {
        303: { description: redirects, headers: headerRefs([...ALWAYS, 'Location']) },
      }),
      ...(waited && {
        200: { description: 'Done, and every sidecar has dropped it (`wait=fleet`)', ...waited },
        202: { description: 'Done, and some sidecars have not confirmed that (`wait=fleet`)', ...waited },
      }),
    };
  return {
    200: { description: 'Done', ...fields, content: content([JSON_TYPE], schemaRef(response)) },
  };
}

const WRONG_WAIT: Endpoint['codes'] = { 422: ['Unprocessable Entity'] };

/** Where a status has both codes and a refusal without a code, the body is either. */
function refusals({ method, receipt, codes = receipt && WRONG_WAIT, refusals = [] }: Endpoint, credential: ServedEndpoint['credential']) {
  const found: Record<number, Json> = {};
  for (const name of [...refusalsOf(credential, method), ...refusals])
    found[REFUSALS[name].status] = { $ref: `#/components/responses/${name}` };
  for (const [status, some] of Object.entries(codes ?? {})) {
    const plain = Object.values(REFUSALS).find((each) => found[each.status] !== undefined && each.status === Number(status));
    found[Number(status)] = coded(some, plain);
  }
  return found;
} // prettier-ignore

function coded(codes: readonly GrantCode[], plain: RefusalAnswer | undefined): Json {
  const schema = schemaOf(codedProblem(codes));
  return {
    description: [codes.map((code) => `\`${code}\``).join(', '), plain?.description ?? []].flat().join('; '),
    headers: headerRefs(ALWAYS),
    content: content(
      [JSON_TYPE],
      plain === undefined ? schema : { anyOf: [schema, schemaRef(plain.schema)] },
    ),
  };
}

function refusal({ description, schema, headers = [] }: RefusalAnswer): Json {
  return {
    description,
    headers: headerRefs([...ALWAYS, ...headers]),
    content: content([JSON_TYPE], schemaRef(schema)),
  };
}

function content(types: readonly string[], schema: Json): Json {
  return Object.fromEntries(types.map((type) => [type, { schema }]));
}
