import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A code block of a page. */
export interface Block {
  readonly kind: string;
  readonly text: string;
  /** Its line number in the page. */
  readonly line: number;
  /** How many `<!-- empty folder -->` come before it: the reader begins anew at each. */
  readonly folder: number;
  /**
   * The reason in a preceding comment `<!-- not run: WHY -->`, or the file in `<!-- run by FILE
   * -->`.
   */
  readonly notRun?: string;
  readonly runBy?: string;
}

const BLOCK = /(?:<!-- (not run: |run by )(.+?) -->\s+)?```([\w-]*)\n([\s\S]*?)```/g;

/** The code blocks of a page, or of one `##` section of it, in order. */
export function blocksOf(page: string, section?: string): Block[] {
  const source = readFileSync(page, 'utf8');
  const blocks = [...source.matchAll(BLOCK)].map((match) => {
    const [whole, comment, said = '', kind = '', text = ''] = match;
    const start = match.index + whole.indexOf('```');
    return {
      kind,
      text,
      line: source.slice(0, start).split('\n').length,
      folder: source.slice(0, start).split('<!-- empty folder -->').length - 1,
      ...(comment === 'not run: ' && { notRun: said }),
      ...(comment === 'run by ' && { runBy: said }),
    };
  });
  if (section === undefined) return blocks;
  const from = source.indexOf(`\n## ${section}\n`);
  if (from === -1) throw new Error(`${page} has no section ${section}`);
  const to = source.indexOf('\n## ', from + 1);
  const lineOf = (at: number) => (at === -1 ? Infinity : source.slice(0, at).split('\n').length);
  return blocks.filter(({ line }) => line > lineOf(from) && line < lineOf(to));
}

/** All pages of the documentation. */
export function pages(): string[] {
  const below = (folder: string, name: RegExp) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => name.test(file))
      .map((file) => join(folder, file));
  return [
    'README.md',
    'SECURITY.md',
    'CONTRIBUTING.md',
    'CHANGELOG.md',
    ...below('docs', /\.md$/),
    ...['examples', 'helm']
      .filter((folder) => existsSync(folder))
      .flatMap((folder) => below(folder, /README\.md$/)),
  ];
}

/** A link or an image in a page. */
export interface Link {
  readonly path: string;
  readonly anchor: string | undefined;
}

/** The links of a page to files in the repository. */
export function linksOf(page: string): Link[] {
  const prose = readFileSync(page, 'utf8').replaceAll(/```[\s\S]*?```|`[^`\n]*`/g, '');
  const found = prose.matchAll(/\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)|(?:src|srcset|href)="(?!\w+:)([^"#]*)(?:#([^"]*))?"/g);
  return [...found].map(([, path, anchor, htmlPath, htmlAnchor]) => ({
    path: path ?? htmlPath ?? '',
    anchor: anchor ?? htmlAnchor,
  }));
} // prettier-ignore

/** The anchors of a page's headings, as GitHub generates them. */
export function anchorsOf(page: string): string[] {
  const prose = readFileSync(page, 'utf8').replaceAll(/```[\s\S]*?```/g, '');
  return [...prose.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}
