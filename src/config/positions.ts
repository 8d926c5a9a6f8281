import { type Document, isMap, isPair, isScalar, type LineCounter, type Node } from 'yaml';

/** A path in the tree of a file: keys and indexes from its root. */
export type Path = readonly PropertyKey[];

export function offsetOf(document: Document, path: Path, place: 'key' | 'value'): number {
  let node: unknown = document.contents;
  let offset = startOf(node);
  for (const [index, step] of path.entries()) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(step));
      if (pair === undefined) return offset;
      const last = index === path.length - 1;
      offset = last && place === 'key' ? startOf(pair.key) : startOf(pair.value) || startOf(pair.key);
      node = pair.value;
    } else {
      node = (node as { items?: unknown[] } | null)?.items?.[Number(step)];
      if (isPair(node) || node === undefined) return offset;
      offset = startOf(node);
    }
  }
  return offset;
}

/** Returns the line of every node, by its path joined by dots. */
export function linesOf(document: Document, counter: LineCounter): Record<string, number> {
  const lines: Record<string, number> = {};
  const walk = (node: unknown, path: string): void => {
    const items = isMap(node) ? node.items : ((node as { items?: unknown[] } | null)?.items ?? []);
    for (const [i, item] of items.entries()) {
      const key = isPair(item) ? String((item.key as { value?: unknown }).value) : String(i);
      const below = path === '' ? key : `${path}.${key}`;
      lines[below] = counter.linePos(startOf(isPair(item) ? item.key : item)).line;
      walk(isPair(item) ? item.value : item, below);
    }
  };
  walk(document.contents, '');
  return lines;
}

function startOf(node: unknown): number {
  return (node as Node | null | undefined)?.range?.[0] ?? 0;
}
