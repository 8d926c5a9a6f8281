/**
 * The layers of src, from the top. A file may import from its own layer and from those below it, types included.
 * An entry is a folder or a file of src; several in one entry stand side by side and do not import each other.
 */
const LAYERS = [
  ['cli.ts'],
  ['commands'],
  ['doctor', 'policy-diff'],
  ['server'],
  ['listeners'],
  ['pipeline'],
  ['config', 'upstream'],
  ['endpoints'],
  ['gate'],
  ['accounts', 'webhooks'],
  ['store'],
  ['http1'],
  ['policy', 'http'],
  ['observe'],
  ['net'],
  ['files'],
  ['config/schema'],
  ['domain'],
  ['util'],
];

/** A folder without those of its folders that are layers of their own. */
const folderOf = (name) => {
  const own = LAYERS.flat().filter((other) => other.startsWith(`${name}/`));
  return name + own.map((other) => `(?!${other.slice(name.length)}/)`).join('') + '/';
};

const pathOf = (names) =>
  `^src/(${names.map((name) => (name.endsWith('.ts') ? name : folderOf(name))).join('|')})`;

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    ...LAYERS.map((layer, i) => ({
      name: `below-${layer[0]}`,
      comment: `src/${layer.join(', src/')} import downwards only: see LAYERS in .dependency-cruiser.mjs`,
      severity: 'error',
      from: { path: pathOf(layer) },
      to: { path: pathOf(LAYERS.slice(0, i).flat().concat('ui')) },
    })),
    ...LAYERS.filter((layer) => layer.length > 1).flatMap((layer) =>
      layer.map((name) => ({
        name: `beside-${name}`,
        severity: 'error',
        from: { path: pathOf([name]) },
        to: { path: pathOf(layer.filter((other) => other !== name)) },
      })),
    ),
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
