/** Lists and objects within each other; nothing that is read here has more than a few. */
const MAX_DEPTH = 64;

const [QUOTE, BACKSLASH, LIST, LIST_END, OBJECT, OBJECT_END] = [0x22, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Parses JSON that somebody else wrote. `JSON.parse` of Node 26.10 ends the process for 32 KiB of `[1,[1,[1,…`, so what
 * is nested too deep never reaches it.
 *
 * @throws SyntaxError for what is no JSON or is nested deeper than 64 levels
 */
export function parseForeignJson(text: string): unknown {
  if (isTooDeep(text)) throw new SyntaxError(`JSON is nested deeper than ${MAX_DEPTH} levels`);
  return JSON.parse(text);
}

function isTooDeep(text: string): boolean {
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) quoted = !quoted;
    else if (quoted) i += code === BACKSLASH ? 1 : 0;
    else if (code === LIST || code === OBJECT) {
      depth += 1;
      if (depth > MAX_DEPTH) return true;
    } else if (code === LIST_END || code === OBJECT_END) depth -= 1;
  }
  return false;
}
