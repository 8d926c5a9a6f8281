import type { LoadedConfig } from './load.js';
import { patternWarnings } from './policy-checks.js';
import { routeWarnings } from './route-warnings.js';
import { withShadow } from './shadow.js';

/** What an operator should know of the shadow policy, each with its file. */
export function shadowWarnings(loaded: LoadedConfig): string[] {
  const { shadow } = loaded;
  const promoted = withShadow(loaded);
  if (shadow === null || promoted === null) return [];
  const { file, lines, sections, obstacles } = shadow;
  const { config } = promoted;
  const routes = sections.routes === undefined ? [] : routeWarnings({ config, lines });
  return [
    ...[...routes, ...patternWarnings(config, lines)].map(
      ({ line, message }) => `${file}:${line}: warning: ${message}`,
    ),
    ...obstacles.map(
      (message) => `${file}: warning: with this policy, the configuration is refused: ${message}`,
    ),
  ];
}
