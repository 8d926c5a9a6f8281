/**
 * The nine layers of src, from the top. A file may import from its own folder, from those to the right of it in its
 * layer, and from all layers below, types included.
 */
const LAYERS = [
  ['cli.ts', 'commands', 'policy-diff', 'doctor'],
  ['server'],
  ['listeners'],
  ['pipeline', 'config', 'upstream'],
  ['endpoints', 'gate'],
  ['accounts', 'webhooks'],
  ['store'],
  ['http1', 'http', 'policy'],
  ['observe', 'net', 'files', 'config/schema', 'domain', 'util'],
];

/** The folders of all layers, each above those that it may import. */
const FOLDERS = LAYERS.flat();

/** A folder without those of its folders that are layers of their own. */
const folderOf = (name) => {
  const own = FOLDERS.filter((other) => other.startsWith(`${name}/`));
  return name + own.map((other) => `(?!${other.slice(name.length)}/)`).join('') + '/';
};

const pathOf = (names) =>
  `^src/(${names.map((name) => (name.endsWith('.ts') ? name : folderOf(name))).join('|')})`;

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    ...FOLDERS.map((folder, i) => ({
      name: `below-${folder}`,
      comment: `src/${folder} imports downwards only: see LAYERS in .dependency-cruiser.mjs`,
      severity: 'error',
      from: { path: pathOf([folder]) },
      to: { path: pathOf(FOLDERS.slice(0, i).concat('ui')) },
    })),
    {
      name: 'verify-alone',
      comment: 'src/verify runs in upstreams; of all else it takes names of headers',
      severity: 'error',
      from: { path: '^src/verify/' },
      to: {
        path: '^src/',
        pathNot: '^src/(verify/|domain/identity-fields|http/protected-fields|config/schema/identity-presets)',
      },
    },
    {
      name: 'verify-for-upstreams',
      severity: 'error',
      from: { path: '^src/(?!verify/)' },
      to: { path: '^src/verify/' },
    },
    {
      name: 'ui-alone',
      comment: 'src/ui runs in browsers; of all else it takes the types of answers only',
      severity: 'error',
      from: { path: '^src/ui/' },
      to: { path: '^src/', pathNot: '^src/(ui/|endpoints/schema/responses)' },
    },
    {
      name: 'ui-types-only',
      severity: 'error',
      from: { path: '^src/ui/' },
      to: { path: '^src/endpoints/', dependencyTypesNot: ['type-only'] },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.test.json' },
    doNotFollow: { path: 'node_modules' },
    includeOnly: '^(src|bench|scripts)/',
    exclude: '^bench/node_modules/',
    enhancedResolveOptions: { extensions: ['.ts', '.tsx', '.js', '.mjs'] },
  },
};
