/** What is open at the end of a YAML text: offsets of a quote, and of the innermost bracket. */
export interface Openings {
  readonly quote: number | undefined;
  readonly bracket: number | undefined;
}

/**
 * Quoted text, comments and brackets. A quote opens only at the beginning of a value, and a comment only
 * after white space. An unclosed quote reaches to the end of the text.
 */
const TOKENS = /(?<![^\s,[\]{}:])(?:"(?:[^"\\]|\\[^])*("?)|'[^']*('?))|(?<!\S)#.*|[[\]{}]/g;

export function openingsOf(text: string): Openings {
  const brackets: number[] = [];
  for (const { 0: token, 1: double, 2: single, index } of text.matchAll(TOKENS)) {
    if (double === '' || single === '') return { quote: index, bracket: brackets.at(-1) };
    if (token === '[' || token === '{') brackets.push(index);
    else if (token === ']' || token === '}') brackets.pop();
  }
  return { quote: undefined, bracket: brackets.at(-1) };
}
