/**
 * How lenient readers see the non-ASCII characters of a path: some normalize them (NFKC), others take the
 * nearest one of a smaller character set ("best fit"). Paths are in the form that `decodeAscii` returns.
 */

const ESCAPES_BEYOND_ASCII = /(?:%[89A-F][0-9A-F])+/g;
const BEYOND_ASCII = /[^\0-\x7f]/gu;
const RUNS_BEYOND_ASCII = /[^\0-\x7f]+/g;

/** Stand for a character that may be read as the end of the path or as an escape; no path contains them. */
const [END, PERCENT] = ['\0', '\x01'];

const SPECIAL = /[/?#%]/;
const ESCAPE = new RegExp(`${PERCENT}[0-9A-Fa-f]{2}`);
const MEANT: Readonly<Record<string, string>> = { '/': '%2F', '?': END, '#': END, '%': PERCENT };

const SOFT_HYPHEN = '\xad';

/** Substitutes where Unicode has no decomposition, from Windows code pages 1252 and 20127 and UTS 46. */
const BEST_FIT = new Map(
  [
    'ĐDđdĦHħhıiŁLłlŦTŧtƀbƄbƗIƚlƟOƫtƮTƶzǤGǥgɡgΓGΘTΣSΦFΩOαaδdεeπpσsτtφf℮e√v∞8∩n',
    '‐-‒-–-—-―-−-─-ˍ_̱_̲_∕/⁄/⧸/╱/∖\\⧵\\╲\\⃥\\。.․.∙.٪%∶:∗*⁎*∼~',
  ].flatMap((pairs) =>
    Array.from(pairs).flatMap((char, i, all): [string, string][] => (i % 2 === 0 ? [[char, all[i + 1] ?? '']] : [])),
  ),
); // prettier-ignore

/** What best fit may change: the table, Latin beyond Latin-1, marks, invisible characters. */
const MAY_FIT = new RegExp(
  `[${[...BEST_FIT.keys()].join('')}\\u0100-\\u02af\\u1e00-\\u1eff\\u2260\\u226e\\u226f\\p{M}\\p{Default_Ignorable_Code_Point}]`,
  'gu',
);

/**
 * Returns the other paths that such readers may see, or a sentence why the path is refused: it is not valid
 * UTF-8, on which decoders disagree, or hides a control character, a backslash or an escape.
 */
export function lookalikes(literal: string): string[] | string {
  const text = decodeUtf8(literal);
  if (text === literal) return [];
  if (text === undefined) return 'the path has escapes that are not valid UTF-8';
  if (/[\x80-\x9f]/.test(text)) return 'the path has an encoded control character';
  const seen = new Set<string>();
  const compatible = normalize(text);
  for (const folded of [compatible, replaceEach(compatible, MAY_FIT, bestFit)]) {
    if (folded.includes('\\')) return 'the path has a character that can be mistaken for a backslash';
    if (ESCAPE.test(folded))
      return 'the path has a character before two hexadecimal digits that can be mistaken for "%"';
    const end = folded.indexOf(END);
    if (end >= 0) seen.add(encode(folded.slice(0, end)));
    seen.add(encode(folded));
  }
  seen.delete(literal);
  return [...seen];
}

/** Returns a path in Unicode normalization form KC, which route paths must use. */
export function inNormalForm(literal: string): string {
  return encode(normalize(decodeUtf8(literal) ?? ''));
}

/** Returns a path as the most lenient of these readers sees it. */
export function asBestFit(literal: string): string {
  return encode(replaceEach(normalize(decodeUtf8(literal) ?? ''), MAY_FIT, bestFit));
}

/** Returns a text that is equal for segments that differ only in the case of letters of any script. */
export function foldCase(segment: string): string {
  if (!segment.includes('%')) return segment.toLowerCase();
  // By way of upper case, because letters like a final sigma have two forms in lower case.
  return (decodeUtf8(segment) ?? segment).toUpperCase().toLowerCase();
}

/** Returns undefined for invalid UTF-8 (RFC 3629 3). */
function decodeUtf8(literal: string): string | undefined {
  try {
    return literal.replace(ESCAPES_BEYOND_ASCII, decodeURIComponent);
  } catch {
    return undefined;
  }
}

function encode(text: string): string {
  return text.replaceAll(END, '?').replaceAll(PERCENT, '%').replace(RUNS_BEYOND_ASCII, encodeURIComponent);
}

/**
 * Normalizes to NFKC, one character first, so that ASCII in a replacement comes from a non-ASCII character.
 */
function normalize(text: string): string {
  if (text.normalize('NFKC') === text) return text;
  return replaceEach(text, BEYOND_ASCII, (char) => char.normalize('NFKC')).normalize('NFC');
}

function replaceEach(text: string, which: RegExp, by: (char: string) => string): string {
  return text.replace(which, (char) => {
    const read = by(char);
    return SPECIAL.test(read) ? read.replace(/[/?#%]/g, (special) => MEANT[special] ?? '') : read;
  });
}

/** Keeps Latin-1 accents: Latin-1 is the smallest set that readers still use, and `/café` is not `/cafe`. */
function bestFit(char: string): string {
  const fit = BEST_FIT.get(char);
  if (fit !== undefined) return fit;
  if (char <= '\xff' && char !== SOFT_HYPHEN) return char;
  const base = char.normalize('NFKD').replace(/[\p{M}\p{Default_Ignorable_Code_Point}]/gu, '');
  if (/[^\0-\x7f]/.test(base)) return BEST_FIT.get(base) ?? char;
  return base;
}
