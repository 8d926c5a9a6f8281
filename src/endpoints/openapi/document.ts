import type { GrantCode } from '../../domain/refusal.js';
import type { EndpointRule } from '../../policy/endpoint-rule.js';
import { endpointRoutes, type EndpointSettings } from '../../policy/own-endpoints.js';
import { codedProblem } from '../schema/answers.js';
import { ALWAYS, headerRefs, HEADERS } from './headers.js';
import { type Operation, OPERATIONS, type Request, TAGS } from './operations.js';
import { type RefusalAnswer, REFUSALS, refusalsOf } from './refusals.js';
import { type Json, schemaOf, schemaRef, schemasOf } from './schemas.js';

/** What the document depends on: a configuration and a version. */
export interface InterfaceSettings {
  readonly endpoints: EndpointSettings;
  /** Name of the field that carries a token. */
  readonly keyName: string;
  /** Name of the field that carries a one-time password. */
  readonly otpName: string;
  readonly sessionCookie: string;
  readonly version: string;
}

const ABOUT = `The endpoints of Latchkey's own. Every other path belongs to the upstream behind it.

- A body is a form or JSON with the same names, at most 64 KiB by default; unknown parameters are ignored,
  except names at POST /tokens that were meant to restrict the token.
- An answer may get more fields in a later version.
- What answers GET answers HEAD too.
- Another method or path below an own one is a 404.`;

/** Describes the interface that a configuration serves, as OpenAPI 3.1. */
export function interfaceDocument(settings: InterfaceSettings): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const { path, methods, endpoint, action } of endpointRoutes(settings.endpoints)) {
    const operation = endpoint === undefined ? null : OPERATIONS[endpoint.name];
    const method = methods?.[0];
    if (operation === null || endpoint === undefined || method === undefined) continue;
    const operations = (paths[path.replaceAll(/:(\w+)/g, '{$1}')] ??= {});
    operations[method.toLowerCase()] = describe(
      operation,
      { endpoint, method, path, action: action ?? null },
      settings.endpoints,
    );
  }
  const responses = Object.fromEntries(Object.entries(REFUSALS).map(([name, each]) => [name, refusal(each)]));
  return {
    openapi: '3.1.1',
    info: { title: 'Latchkey', version: settings.version, description: ABOUT },
    tags: usedTags(paths).map((name) => ({ name, description: TAGS[name] })),
    paths,
    components: {
      schemas: schemasOf(paths, responses),
      responses,
      headers: HEADERS,
      parameters: {
        OneTimePassword: {
          name: settings.otpName,
          in: 'header',
          description: 'The one-time password of an account with two-factor authentication',
          schema: { type: 'string' },
        },
      },
      securitySchemes: {
        token: { type: 'apiKey', in: 'header', name: settings.keyName, description: 'An API token' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: settings.sessionCookie,
          description: 'What the login gave',
        },
      },
    },
  };
}

/** Where an operation is, and what it takes. */
interface Place {
  readonly endpoint: EndpointRule;
  readonly method: string;
  readonly path: string;
  readonly action: string | null;
}

function describe(operation: Operation, place: Place, { account }: EndpointSettings): Json {
  const { endpoint, method, path, action } = place;
  const { tag, summary } = operation;
  const needs = action === null ? [] : [`Needs the action \`${action}\`.`];
  const description = [operation.description ?? [], needs].flat().join(' ');
  const parameters = [
    ...[...path.matchAll(/:(\w+)/g)].map(([, name]) => ({ name, in: 'path', required: true, schema: { type: 'string' } })),
    ...(operation.otp === true ? [{ $ref: '#/components/parameters/OneTimePassword' }] : []),
  ];
  return {
    operationId: endpoint.name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    tags: [tag],
    summary,
    ...(description === '' ? {} : { description }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(operation.request === undefined ? {} : { requestBody: requestBody(operation.request, account) }),
    security: securityOf(endpoint, account && operation.request?.afterSudo !== undefined),
    responses: { ...success(operation), ...refusals(operation, endpoint, method) },
  };
} // prettier-ignore

function requestBody({ schema, afterSudo, types }: Request, account: boolean): Json {
  const either =
    account && afterSudo !== undefined
      ? { anyOf: [schemaRef(schema), schemaRef(afterSudo)] }
      : schemaRef(schema);
  return { required: true, content: content(types, either) };
}

/** Each of these is enough. @param optional whether one may count where none is needed */
function securityOf({ takes }: EndpointRule, optional: boolean): Json[] {
  const any = [{ session: [] }, { token: [] }];
  switch (takes) {
    case 'nothing':
      return optional ? [{}, ...any] : [];
    case 'optional':
      return [{}, ...any];
    case 'session_or_token':
      return any;
    case 'session':
    case 'token':
      return [{ [takes]: [] }];
  }
}

function success({ answer, headers = [] }: Operation): Json {
  const fields = { headers: headerRefs([...ALWAYS, ...headers]) };
  if (answer === null) return { 204: { description: 'Done', ...fields } };
  return {
    200: { description: 'Done', ...fields, content: content(['application/json'], schemaRef(answer)) },
  };
}

/** The refusals by status. Where a status has codes and a refusal without one, the body is either. */
function refusals({ codes = {}, refusals = [] }: Operation, endpoint: EndpointRule, method: string) {
  const found: Record<number, Json> = {};
  for (const name of [...refusalsOf(endpoint, method), ...refusals])
    found[REFUSALS[name].status] = { $ref: `#/components/responses/${name}` };
  for (const [status, some] of Object.entries(codes)) {
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
      ['application/json'],
      plain === undefined ? schema : { anyOf: [schema, schemaRef(plain.schema)] },
    ),
  };
}

function refusal({ description, schema, headers = [] }: RefusalAnswer): Json {
  return {
    description,
    headers: headerRefs([...ALWAYS, ...headers]),
    content: content(['application/json'], schemaRef(schema)),
  };
}

function content(types: readonly string[], schema: Json): Json {
  return Object.fromEntries(types.map((type) => [type, { schema }]));
}

function usedTags(paths: Readonly<Record<string, Readonly<Record<string, Json>>>>): (keyof typeof TAGS)[] {
  const used = Object.values(paths).flatMap((each) => Object.values(each).flatMap(({ tags }) => tags));
  return (Object.keys(TAGS) as (keyof typeof TAGS)[]).filter((tag) => used.includes(tag));
}
