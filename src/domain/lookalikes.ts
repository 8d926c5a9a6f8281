/**
 * What lenient readers make of the characters of a path beyond ASCII: some normalize them (NFKC: a full-width letter
 * becomes the letter), others put the nearest character of a smaller set in their stead ("best fit").
 *
 * Texts are paths as `decodeAscii` leaves them: beyond ASCII everything is an escape in upper case.
 */

const ESCAPES_BEYOND_ASCII = /(?:%[89A-F][0-9A-F])+/g;
const BEYOND_ASCII = /[^\0-\x7f]/gu;
const RUNS_BEYOND_ASCII = /[^\0-\x7f]+/g;

/** No path has these characters, so they can stand for what a reader may take for an end or an escape of its own. */
const [END, PERCENT] = ['\0', '\x01'];

const SPECIAL = /[/?#%]/;
const ESCAPE = new RegExp(`${PERCENT}[0-9A-Fa-f]{2}`);
const MEANT: Readonly<Record<string, string>> = { '/': '%2F', '?': END, '#': END, '%': PERCENT };

const SOFT_HYPHEN = '\xad';

/** Best fit where Unicode has no decomposition (Windows code pages 1252 and 20127, UTS 46); pairs of character and fit. */
const BEST_FIT = new Map(
  [
    'ĐDđdĦHħhıiŁLłlŦTŧtƀbƄbƗIƚlƟOƫtƮTƶzǤGǥgɡgΓGΘTΣSΦFΩOαaδdεeπpσsτtφf℮e√v∞8∩n',
    '‐-‒-–-—-―-−-─-ˍ_̱_̲_∕/⁄/⧸/╱/∖\\⧵\\╲\\⃥\\。.․.∙.٪%∶:∗*⁎*∼~',
  ].flatMap((pairs) =>
    Array.from(pairs).flatMap((char, i, all): [string, string][] => (i % 2 === 0 ? [[char, all[i + 1] ?? '']] : [])),
  ),
); // prettier-ignore

/**
 * What best fit may change in a normalized text: what has a fit, Latin letters beyond Latin-1, marks, and what is not
 * shown.
 */
const MAY_FIT = new RegExp(
  `[${[...BEST_FIT.keys()].join('')}\\u0100-\\u02af\\u1e00-\\u1eff\\u2260\\u226e\\u226f\\p{M}\\p{Default_Ignorable_Code_Point}]`,
  'gu',
);

/**
 * Every other path that such readers see. Returns a sentence when the path is refused whatever the routes are: it is no
 * UTF-8, so that decoders differ (overlong forms, stray bytes), or it hides a control character, a backslash or an escape.
 */
export function lookalikes(literal: string): string[] | string {
  const text = decodeUtf8(literal);
  if (text === literal) return [];
  if (text === undefined) return 'the path has escapes that are not valid UTF-8';
  if (/[\x80-\x9f]/.test(text)) return 'the path has an encoded control character';
  const seen = new Set<string>();
  const compatible = normalize(text);
  for (const folded of [compatible, replaceEach(compatible, MAY_FIT, bestFit)]) {
    if (folded.includes('\\')) return 'the path has a character that can be taken for a backslash';
    if (ESCAPE.test(folded))
      return 'the path has a character that can be taken for "%" before two hexadecimal digits';
    const end = folded.indexOf(END);
    if (end >= 0) seen.add(encode(folded.slice(0, end)));
    seen.add(encode(folded));
  }
  seen.delete(literal);
  return [...seen];
}

/** A path in Unicode normalization form KC, in which the paths of routes have to be. */
export function inNormalForm(literal: string): string {
  return encode(normalize(decodeUtf8(literal) ?? ''));
}

/** A path as the most lenient of these readers sees it. */
export function asBestFit(literal: string): string {
  return encode(replaceEach(normalize(decodeUtf8(literal) ?? ''), MAY_FIT, bestFit));
}

/** undefined when the bytes are no UTF-8 (RFC 3629 3): overlong, a surrogate, over U+10FFFF, or a stray one. */
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

/** NFKC, one character at a time at first: what this turns into ASCII was not ASCII before. */
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

/** Accents of Latin-1 stay: it is the smallest set that readers still use, and `/café` is not `/cafe`. */
function bestFit(char: string): string {
  const fit = BEST_FIT.get(char);
  if (fit !== undefined) return fit;
  if (char <= '\xff' && char !== SOFT_HYPHEN) return char;
  const base = char.normalize('NFKD').replace(/[\p{M}\p{Default_Ignorable_Code_Point}]/gu, '');
  if (/[^\0-\x7f]/.test(base)) return BEST_FIT.get(base) ?? char;
  return base;
}
