import { readFileSync } from 'node:fs';

/** @import { Plugin } from 'esbuild' */

const NO_MAP = Buffer.from('{"version":3,"sources":[""],"mappings":"AAAA"}').toString('base64');

/**
 * Omits packages from source maps. Node reads the whole map at the first error, and packages would be
 * most of it.
 *
 * @type {Plugin}
 */
export const unmapped = {
  name: 'unmapped',
  setup(build) {
    build.onLoad({ filter: /[\\/]node_modules[\\/].*\.[cm]?js$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8').replaceAll('//# sourceMappingURL=', '// ');
      return { contents: `${text}\n//# sourceMappingURL=data:application/json;base64,${NO_MAP}` };
    });
  },
};
