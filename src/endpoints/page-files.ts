import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Content } from '../http/replies.js';

/** A file of the web page, as it is and packed. */
export interface PageFile {
  readonly plain: Content;
  readonly packed: Content;
}

/** The files of the web page, in memory: a request's path is only ever compared with their names. */
export interface PageFiles {
  readonly html: PageFile;
  /** By name. Each name has a digest of the content in it. */
  readonly assets: ReadonlyMap<string, PageFile>;
}

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** What stands in the document for whether there are OpenID Connect providers. */
const HAS_PROVIDERS = 'name="identity-providers" content="no"';

/** Where the build puts the page, beside the compiled code. */
const FOLDER = new URL('../ui/', import.meta.url);

/** What stands in the document for the name of the field that carries a one-time password. */
const OTP_NAME = 'content="Service-OTP"';

/**
 * Reads the page as it was built.
 *
 * @param otpName the field of the one-time password, which the page has to know before anybody is logged in
 * @param hasProviders whether the page has to ask how people log in
 * @throws when it was not built
 */
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
