import type { CorsSettings } from '../domain/cors.js';
import type { Add } from './fault.js';
import type { Path } from './positions.js';
import type { Config } from './schema/config.js';
import type { Source } from './source.js';

/** An origin of an application: `capacitor://localhost`, `chrome-extension://abc`. */
const OF_APPLICATION = /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s*A-Z]+$/;
const HTTP = /^https?:$/;

/** An origin that no browser sends would allow nobody, and look as if it did. */
export function checkCors(config: Config, { written }: Pick<Source, 'written'>, add: Add): void {
  for (const [settings, at] of corsSettings(config)) {
    const origins = [settings.origins].flat();
    origins.forEach((origin, i) => {
      const path = Array.isArray(settings.origins) ? [...at, 'origins', i] : [...at, 'origins'];
      const fault = originFault(origin, origins, Object.hasOwn(written, path.join('.')));
      if (fault !== undefined) add(path, fault);
    });
    if (settings.credentials && origins.includes('*'))
      add([...at, 'credentials'], 'browsers refuse credentials with origins: "*"; list the origins');
  }
}

export function corsSettings({
  cors,
  routes,
  default_route: fallback,
}: Config): (readonly [CorsSettings, Path])[] {
  const all: (readonly [CorsSettings | false | null | undefined, Path])[] = [
    [cors, ['cors']],
    ...routes.map((route, i) => [route.cors, ['routes', i, 'cors']] as const),
    [fallback.cors, ['default_route', 'cors']],
  ];
  return all.flatMap(([settings, at]) =>
    settings === false || settings == null ? [] : [[settings, at] as const],
  );
}

/** @param hidden whether the origin was expanded, so that it must not be shown */
function originFault(origin: string, all: readonly string[], hidden: boolean): string | undefined {
  if (origin === 'null') return undefined;
  if (origin === '*')
    return all.length > 1 ? '"*" must be the only origin; remove it or the others' : undefined;
  if (origin.includes('*')) return 'origins are compared exactly; list each one, or write "*" alone for all';
  const expected = 'expected an origin as browsers send it: scheme, host and a port that is not the default';
  if (!URL.canParse(origin)) return `${expected}, like https://app.example`;
  const { origin: sent, protocol } = new URL(origin);
  if (sent === origin || (!HTTP.test(protocol) && OF_APPLICATION.test(origin))) return undefined;
  if (!HTTP.test(protocol)) return `${expected}, like https://app.example`;
  return `${expected}${hidden ? ', like https://app.example' : `; write ${sent}`}`;
}
