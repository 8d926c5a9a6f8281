import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Content } from '../http/replies.js';

export interface PageFile {
  readonly plain: Content;
  readonly packed: Content;
}

/** A request's path is only ever compared with the names of files. */
export interface PageFiles {
  readonly html: PageFile;
  /** By name, which contains a digest. */
  readonly assets: ReadonlyMap<string, PageFile>;
}

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Placeholders in the HTML. */
const HAS_PROVIDERS = 'name="identity-providers" content="no"';

/** Where the build puts the page. */
const FOLDER = new URL('../ui/', import.meta.url);

const OTP_NAME = 'content="Service-OTP"';

/** @param otpName of the one-time password's field, which the page must know before a login */
export function readPageFiles(otpName: string, hasProviders: boolean): PageFiles {
  const assets = new URL('assets/', FOLDER);
  try {
    const html = readFileSync(new URL('index.html', FOLDER), 'utf8')
      .replace(OTP_NAME, `content="${otpName}"`)
      .replace(HAS_PROVIDERS, hasProviders ? 'name="identity-providers" content="yes"' : HAS_PROVIDERS);
    return {
      html: pageFile(Buffer.from(html), 'text/html; charset=utf-8', false),
      assets: new Map(
        readdirSync(assets).map((name) => [
          name,
          pageFile(readFileSync(new URL(name, assets)), TYPES[extname(name)] ?? '', true),
        ]),
      ),
    };
  } catch (error) {
    throw new Error('the web page is not built; run "npm run build", or set interface.ui.enabled: false', {
      cause: error,
    });
  }
}

function pageFile(bytes: Buffer, type: string, immutable: boolean): PageFile {
  return {
    plain: { type, immutable, bytes },
    packed: { type, immutable, bytes: gzipSync(bytes, { level: 9 }) },
  };
}
