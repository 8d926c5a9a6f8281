import { decodeAscii } from '../domain/path.js';

interface Declared {
  readonly path: string;
  readonly methods?: readonly string[] | undefined;
}

/**
 * Routes with the methods that they take: `GET` brings `HEAD` along (RFC 9110 9.3.2), unless a route for that very path
 * names `HEAD` itself.
 */
export function withImpliedHead<T extends Declared>(routes: readonly T[]): T[] {
  const named = new Set(routes.filter(({ methods }) => methods?.includes('HEAD')).map(pathKey));
  return routes.map((route) => {
    const { methods } = route;
    if (methods === undefined || !methods.includes('GET') || named.has(pathKey(route))) return route;
    return {
      ...route,
      methods: methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])),
    };
  });
}

/**
 * The same for paths that the router takes for one: however escaped, and whatever their parameters are called. What is
 * no fixed segment begins with a second slash, because an escaped `:` or `*` is one.
 */
export function pathKey({ path }: Pick<Declared, 'path'>): string {
  return decodeAscii(path.replace(/(?<=\/)[:*][^/]*/g, (part) => (part === '*' ? '/*' : '/:')));
}
