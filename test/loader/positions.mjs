// Shows where a failed test is in its source. Node can do so by itself (--enable-source-maps), but
// then each process reads the map of its bundle at its first error, and tap makes one for each test.
import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { dirname, relative, resolve } from 'node:path';

const MARKER = '//# sourceMappingURL=data:application/json;base64,';

/**
 * Replaces positions in bundles by those in their sources.
 *
 * @param {string} output of tap
 * @param {string} root to which paths in the output are relative
 */
export function withSourcePositions(output, root) {
  /** @type {Map<string, SourceMap | undefined>} */
  const maps = new Map();
  const at = (/** @type {string} */ path, /** @type {string} */ line, /** @type {string} */ column) => {
    if (!maps.has(path)) maps.set(path, mapOf(resolve(root, path)));
    const found = maps.get(path)?.findEntry(Number(line) - 1, Number(column) - 1);
    if (found === undefined || !('originalSource' in found)) return undefined;
    const source = relative(root, resolve(root, dirname(path), found.originalSource));
    return [source, found.originalLine + 1, found.originalColumn + 1];
  };
  return output
    .replaceAll(
      /([\w@/.+-]+\.mjs):(\d+):(\d+)/g,
      (text, ...place) => at(...place.slice(0, 3))?.join(':') ?? text,
    )
    .replaceAll(
      /fileName: (\S+\.mjs)\n(\s+)lineNumber: (\d+)\n\s+columnNumber: (\d+)/g,
      (text, path, indent, line, column) => {
        const [source, ...position] = at(path, line, column) ?? [];
        if (source === undefined) return text;
        return `fileName: ${source}\n${indent}lineNumber: ${position[0]}\n${indent}columnNumber: ${position[1]}`;
      },
    );
}

/** @param {string} bundle */
function mapOf(bundle) {
  const text = readFileSync(bundle, 'utf8');
  const at = text.lastIndexOf(MARKER);
  if (at < 0) return undefined;
  return new SourceMap(JSON.parse(Buffer.from(text.slice(at + MARKER.length), 'base64').toString()));
}
