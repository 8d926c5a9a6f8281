// Builds the web page into dist/ui/: one script, one style and the icon, each with a digest in its name, and
// index.html, which names them.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** @param {string} path */
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const out = here('../../dist/ui/');

rmSync(out, { recursive: true, force: true });
const { outputFiles } = await build({
  entryPoints: [here('main.tsx'), here('styles/style.css'), here('icon.svg')],
  bundle: true,
  minify: true,
  write: false,
  format: 'esm',
  target: ['es2022', 'chrome111', 'firefox115', 'safari16'],
  loader: { '.svg': 'copy' },
  entryNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  outdir: out,
  logLevel: 'warning',
});

mkdirSync(`${out}assets`, { recursive: true });
let html = readFileSync(here('index.html'), 'utf8');
for (const { path, contents } of outputFiles) {
  const name = basename(path);
  const source = name.replace(/-[^-]+(\.\w+)$/, '$1');
  writeFileSync(`${out}assets/${name}`, contents);
  html = html.replaceAll(`"assets/${source}"`, `"assets/${name}"`);
}
writeFileSync(`${out}index.html`, html);
