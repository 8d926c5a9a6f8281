import type { IncomingHttpHeaders } from 'node:http';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { parse } from 'yaml';
import { configSchema } from '../../src/config/schema/config.js';
import { interfaceDocument } from '../../src/endpoints/openapi/document.js';
import { interfaceSettings } from '../../src/server/interface-document.js';

/** A request and its response. */
export interface Exchange {
  readonly method: string;
  /** The request target. */
  readonly path: string;
  readonly requestType: string | undefined;
  readonly requestBody: string | undefined;
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** An OpenAPI document of the built-in endpoints. */
export type InterfaceDocument = ReturnType<typeof interfaceDocument>;

// oxlint-disable-next-line typescript/no-explicit-any -- a JSON document
type Json = any;

const FORM = 'application/x-www-form-urlencoded';

/** Returns the OpenAPI document for a configuration. */
export function describedBy(config: string): InterfaceDocument {
  return interfaceDocument(settingsOf(config));
}

function settingsOf(config: string): Parameters<typeof interfaceDocument>[0] {
  const given = (parse(config) ?? {}) as { interface?: object; identity?: { assertion?: { enabled?: boolean } }; login?: object };
  const whole = configSchema.parse({
    upstreams: { api: { url: 'http://127.0.0.1' } },
    interface: given.interface ?? {},
    identity: { assertion: { enabled: given.identity?.assertion?.enabled ?? false } },
    login: given.login ?? {},
  });
  return interfaceSettings(whole);
} // prettier-ignore

const checks = new Map<string, InterfaceCheck>();

/** Returns the check of a configuration's document; most configurations share one. */
export function checkFor(config: string): InterfaceCheck {
  const settings = settingsOf(config);
  const key = JSON.stringify(settings);
  const check = checks.get(key) ?? new InterfaceCheck(interfaceDocument(settings));
  checks.set(key, check);
  return check;
}

/**
 * Validates exchanges against an OpenAPI document. It is stricter than the document in two respects:
 * a response has no fields that the document does not name, and its body ends with a newline.
 */
export class InterfaceCheck {
  /** `operationId status` of each validated exchange. */
  readonly seen = new Set<string>();
  readonly #document: Json;
  readonly #ajv = new Ajv2020({
    strict: false,
    validateSchema: false,
    formats: { 'date-time': true },
  });
  readonly #paths: readonly { readonly pattern: RegExp; readonly fixed: number; readonly template: string }[];
  readonly #validators = new Map<string, ValidateFunction>(); // prettier-ignore

  constructor(document: Json) {
    this.#document = document;
    this.#ajv.addSchema(document, 'request');
    this.#ajv.addSchema(closed(document), 'answer');
    this.#paths = Object.keys(document.paths).map((template) => {
      const segments = template.split('/').map((each) => (each.startsWith('{') ? '[^/]+' : escaped(each)));
      const pattern = new RegExp(`^${segments.join('/')}$`);
      return { pattern, template, fixed: segments.filter((each) => each !== '[^/]+').length };
    });
  }

  /**
   * Returns what is wrong with an exchange; undefined if it is valid or the document lacks its
   * operation.
   */
  faultOf(exchange: Exchange): string | undefined {
    const at = this.#operationAt(exchange);
    if (at === undefined) return undefined;
    const [pointer, operation] = at;
    this.seen.add(`${operation.operationId} ${exchange.status}`);
    const answer = this.#resolve(operation.responses[exchange.status], `${pointer}/responses/${exchange.status}`);
    if (answer === undefined) return `${operation.operationId} has no status ${exchange.status}`;
    const fault =
      this.#headerFault(exchange, answer.value.headers ?? {}) ??
      this.#bodyFault(exchange, answer.value.content, answer.pointer) ??
      (exchange.status < 300 ? this.#requestFault(exchange, operation.requestBody, pointer) : undefined);
    return fault === undefined ? undefined : `${operation.operationId} ${exchange.status}: ${fault}`;
  } // prettier-ignore

  #operationAt({ method, path }: Exchange): [string, Json] | undefined {
    const [plain = ''] = path.split('?', 1);
    const fits = this.#paths.filter(({ pattern }) => pattern.test(plain));
    const [best] = fits.toSorted((a, b) => b.fixed - a.fixed);
    if (best === undefined) return undefined;
    const verb = method === 'HEAD' ? 'get' : method.toLowerCase();
    const operation = this.#document.paths[best.template][verb];
    return operation === undefined ? undefined : [`/paths/${token(best.template)}/${verb}`, operation];
  }

  #resolve(value: Json, pointer: string): { readonly value: Json; readonly pointer: string } | undefined {
    if (value?.$ref === undefined) return value === undefined ? undefined : { value, pointer };
    const target = String(value.$ref).slice(1);
    const found = target.split('/').slice(1).reduce((at, key) => at?.[key], this.#document);
    return this.#resolve(found, target);
  } // prettier-ignore

  #headerFault({ headers }: Exchange, described: Json): string | undefined {
    for (const [name, reference] of Object.entries(described)) {
      const header = this.#resolve(reference, '');
      const given = [headers[name.toLowerCase()]].flat()[0];
      if (given === undefined) {
        if (header?.value.required === true) return `the header ${name} is missing`;
        continue;
      }
      const value = header?.value.schema.type === 'integer' ? Number(given) : given;
      if (header !== undefined && !this.#ajv.validate(header.value.schema, value))
        return `the header ${name} is ${given}`;
    }
    return undefined;
  }

  #bodyFault({ method, headers, text }: Exchange, content: Json, pointer: string): string | undefined {
    const type = headers['content-type'];
    if (content === undefined) {
      return text === '' && type === undefined ? undefined : `there is a body, ${type}: ${text}`;
    }
    if (type === undefined || content[type] === undefined) return `the content type is ${type}`;
    if (method === 'HEAD') return text === '' ? undefined : 'there is a body';
    if (!text.endsWith('\n')) return 'the body does not end with a newline';
    return this.#schemaFault(`answer#${pointer}/content/${token(type)}/schema`, JSON.parse(text));
  }

  #requestFault(
    { requestType, requestBody }: Exchange,
    described: Json,
    pointer: string,
  ): string | undefined {
    if (described === undefined) return undefined;
    if ((requestBody ?? '') === '' && described.required === false) return undefined;
    const sent = (requestType ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
    const type = described.content[sent] === undefined && sent.endsWith('+json') ? 'application/json' : sent;
    if (described.content[type] === undefined) return `the request has the type ${sent}`;
    const at = `request#${pointer}/requestBody/content/${token(type)}/schema`;
    return this.#schemaFault(
      at,
      type === FORM ? this.#readForm(requestBody ?? '') : JSON.parse(requestBody ?? ''),
    );
  }

  /** Parses a form by the document: a parameter that may repeat becomes a list. */
  #readForm(body: string): Json {
    const lists = Object.values(this.#document.components.schemas).flatMap((schema: Json) =>
      Object.entries(schema.properties ?? {}).flatMap(([name, each]: [string, Json]) =>
        each.type === 'array' ? name : [],
      ),
    );
    const params = new URLSearchParams(body);
    const entries = [...params.keys()].map((name) => [
      name,
      lists.includes(name) ? params.getAll(name) : params.get(name),
    ]);
    return Object.fromEntries(entries);
  }

  #schemaFault(reference: string, value: unknown): string | undefined {
    let validate = this.#validators.get(reference);
    if (validate === undefined) {
      validate = this.#ajv.compile({ $ref: encodeURI(reference) });
      this.#validators.set(reference, validate);
    }
    if (validate(value)) return undefined;
    // The error omits the body, which may contain a secret.
    const [error] = validate.errors ?? [];
    return `body${error?.instancePath}: ${error?.message} ${JSON.stringify(error?.params)}`;
  }
}

/** Returns a copy of the schema in which no object may have fields that it does not name. */
function closed(value: Json): Json {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const copy = Object.fromEntries(Object.entries(value).map(([key, each]) => [key, closed(each)]));
  if (value.type === 'object' && value.properties !== undefined) copy['additionalProperties'] ??= false;
  return copy;
}

/** Escapes a key for a JSON pointer in a fragment. */
function token(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
