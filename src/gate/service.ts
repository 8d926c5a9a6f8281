import { segmentAt } from '../domain/path.js';
import type { RequestHead } from '../http/head.js';
import type { Match } from '../policy/routes.js';

/**
 * The service that a request is about: null on a route that has none, undefined when the route has one
 * and the request names none, or several.
 */
export function serviceOf(head: RequestHead, { route, path }: Match): string | null | undefined {
  if (route.service === null) return null;
  switch (route.service.from) {
    case 'path':
      return segmentAt(path, route.service.segment);
    case 'header':
      return onlyField(head.fields, route.service.name);
    case 'query':
      return onlyParameter(head.query, route.service.name);
  }
}

function onlyField(fields: readonly string[], name: string): string | undefined {
  let found: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]?.toLowerCase() !== name) continue;
    if (found !== undefined) return undefined;
    found = fields[i + 1];
  }
  return found;
}

function onlyParameter(query: string, name: string): string | undefined {
  const values = new URLSearchParams(query).getAll(name);
  return values.length === 1 ? values[0] : undefined;
}
