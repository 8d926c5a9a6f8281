import * as fc from 'fast-check';
import t from 'tap';
import { parseTarget } from '../../src/domain/path.js';
import { Router } from '../../src/policy/routes.js';
import { property, Share } from '../helpers/property.js';
import { FALLBACK, BUILT_IN, TABLE, meaningOf, methods, targets, told } from './paths.js';

const router = new Router(TABLE, FALLBACK, BUILT_IN);
const accepted = new Share();

/** The bytes of a path as seen by an upstream that decodes escapes once; `%25` and `%2F` stay. */
function bytesOf(path: string): number[] {
  const bytes: number[] = [];
  for (let i = 0; i < path.length; i++) {
    const escape = path.slice(i, i + 3).toUpperCase();
    if (path[i] !== '%' || escape === '%25' || escape === '%2F') {
      bytes.push(path.charCodeAt(i));
      continue;
    }
    bytes.push(Number.parseInt(escape.slice(1), 16));
    i += 2;
  }
  return bytes;
}

/** Decodes UTF-8 as before RFC 3629: any length for any character, stray bytes as Latin-1. */
function overlong(bytes: readonly number[]): string {
  let text = '';
  for (let i = 0; i < bytes.length; i++) {
    const first = bytes[i] as number;
    const length = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 1;
    const rest = bytes.slice(i + 1, i + length);
    if (length === 1 || rest.length < length - 1 || rest.some((byte) => byte >> 6 !== 2)) {
      text += String.fromCharCode(first);
      continue;
    }
    const code = rest.reduce((sum, byte) => (sum << 6) | (byte & 0x3f), first & (0x7f >> length));
    text += code > 0x10ffff ? '?' : String.fromCodePoint(code);
    i += length - 1;
  }
  return text;
}

const utf8 = (bytes: readonly number[]) => Buffer.from(bytes).toString('utf8');
/** Mappings of some characters in iconv and in Windows' best-fit table for code page 1252. */
const FITS: Record<string, string> = {
  'ł': 'l', 'Ł': 'L', 'đ': 'd', 'ı': 'i', 'ħ': 'h', 'ŧ': 't', 'α': 'a', 'ε': 'e', 'σ': 's', 'π': 'p', 'τ': 't', 'δ': 'd',
  '∕': '/', '⁄': '/', '∖': '\\', '。': '.', '‐': '-', '−': '-', 'ˍ': '_', '٪': '%', '∶': ':', '\u200b': '', '\u00ad': '',
}; // prettier-ignore

function bestFit(text: string): string {
  return Array.from(text.normalize('NFKC'))
    .map((char) => {
      if (FITS[char] !== undefined) return FITS[char];
      const plain = char.normalize('NFKD').replace(/\p{M}/gu, '');
      return char > '\xff' && /^[\0-\x7f]*$/.test(plain) ? plain : char;
    })
    .join('');
}

const DECODERS: Record<string, (bytes: readonly number[]) => string> = {
  'strict UTF-8': utf8,
  overlong,
  'Latin-1': (bytes) => Buffer.from(bytes).toString('latin1'),
  NFC: (bytes) => utf8(bytes).normalize('NFC'),
  NFKC: (bytes) => utf8(bytes).normalize('NFKC'),
  'NFKC of overlong': (bytes) => overlong(bytes).normalize('NFKC'),
  'best fit': (bytes) => bestFit(utf8(bytes)),
};

/** Splits a decoder's output into segments, for a parser that looks for delimiters only now. */
function segmentsOf(text: string, latin1: boolean, cut: boolean): string[] {
  const end = cut ? text.search(/[?#]/) : -1;
  const out: string[] = [];
  for (const segment of (end < 0 ? text : text.slice(0, end)).replaceAll('\\', '/').slice(1).split('/')) {
    if (segment === '..') out.pop();
    else if (segment !== '.') out.push(segment);
  }
  const encode = (run: string) =>
    latin1
      ? Array.from(run)
          .map((char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
          .join('')
      : encodeURIComponent(run);
  return out.map((segment) =>
    segment.replace(/[^\0-\x7f]+/g, encode).replace(/%2f/g, (escape) => escape.toUpperCase()),
  );
}

/** Disguises an ASCII character, so that one parser recognizes it and another does not. */
function disguised(char: string, dice: number): string {
  const wide = String.fromCodePoint(0xff01 + char.charCodeAt(0) - 0x21);
  const code = char.charCodeAt(0);
  const over = `%${(0xc0 | (code >> 6)).toString(16)}%${(0x80 | (code & 0x3f)).toString(16)}`;
  const fits = Object.keys(FITS).filter((key) => FITS[key] === char);
  const ways = [encodeURIComponent(wide), ...fits.map(encodeURIComponent), over, ...more(char)];
  return ways[dice % ways.length] as string;
}

function more(char: string): string[] {
  if (char === '.') return ['․', '‥', '…', '﹒', '｡'].map(encodeURIComponent);
  if (!/[a-z]/i.test(char)) return [];
  return [`${char}\u0301`, `${char}\u200b`, `${char}\u0308`, `${char}？`, `${char}；`, `${char}＃`].map(
    encodeURIComponent,
  );
}

const disguisedTargets = fc
  .tuple(targets, fc.array(fc.tuple(fc.nat(60), fc.nat(40)), { minLength: 1, maxLength: 3 }))
  .map(([target, changes]) => {
    const parts = target.split('?', 1)[0]?.match(/%[0-9a-f]{2}|[^]/gi) ?? [];
    for (const [at, dice] of changes) {
      const i = 1 + (at % Math.max(1, parts.length - 1));
      const part = parts[i];
      if (part !== undefined && /^[!-~]$/.test(part)) parts[i] = disguised(part, dice);
    }
    return parts.join('');
  });

property(
  'every decoder reaches the rule, service and endpoint that were judged',
  30_000,
  fc.tuple(methods, disguisedTargets, fc.constantFrom(...Object.keys(DECODERS))),
  ([method, target, name]) => {
    const parsed = parseTarget(target);
    const match = typeof parsed === 'string' ? parsed : router.find(method, parsed.path, parsed.readings);
    accepted.note(typeof match !== 'string');
    if (typeof match === 'string') return;
    const text = (DECODERS[name] as (bytes: readonly number[]) => string)(bytesOf(target));
    // An escaped "?" in the original is data for every decoder.
    const cuts = /%3f|%23/i.test(target) ? [false] : [false, true];
    for (const cut of cuts) {
      const found = meaningOf(method, segmentsOf(text, name === 'Latin-1', cut));
      if (found !== told(method, match))
        throw new Error(`${method} ${target} is ${text} by ${name}: ${found} is not ${told(method, match)}`);
    }
  },
);

t.test('enough of the targets are accepted for the property to mean something', async (t) => {
  t.ok(accepted.exceeds(0.1), `${Math.round(accepted.part * 100)} %`);
});

t.test('folds half a megabyte of characters in a moment', async (t) => {
  for (const text of ['ﷺ', '\u0301', '\u0301\u0302', 'ā', '？', '／', '日', '%', '；a', '．a', '‥/']) {
    const escaped = encodeURIComponent(text);
    const path = `/${escaped.repeat(Math.ceil(500_000 / escaped.length))}`;
    const from = process.cpuUsage();
    const parsed = parseTarget(path);
    if (typeof parsed !== 'string') router.find('GET', parsed.path, parsed.readings);
    const { user } = process.cpuUsage(from);
    // Quadratic time would take minutes.
    t.ok(user < 10_000_000, `${text}: ${Math.round(user / 1_000)} ms`);
  }
});
