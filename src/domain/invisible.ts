/**
 * A character that is invisible or moves others: it could make a name look like another one.
 *
 * These are control and format characters (the bidirectional ones included), line separators, and
 * what Unicode lets a display ignore, such as fillers and variation selectors.
 */
export const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;
