import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Content } from '../http/json.js';

/** A file of the web page, plain and compressed. */
export interface PageFile {
  readonly plain: Content;
  readonly packed: Content;
}

/**
 * The files of the web page, in memory. A request's path is only ever compared with their names.
 */
export interface PageFiles {
  readonly html: PageFile;
  /** By name. Each name contains a digest of the content. */
  readonly assets: ReadonlyMap<string, PageFile>;
}

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Placeholder in the HTML for whether there are OpenID Connect providers. */
const HAS_PROVIDERS = 'name="identity-providers" content="no"';

/** Where the build puts the page, next to the compiled code. */
const FOLDER = new URL('../ui/', import.meta.url);

/** Placeholder in the HTML for the name of the one-time password field. */
const OTP_NAME = 'content="Service-OTP"';

/**
 * Reads the built page.
 *
 * @param otpName field of the one-time password, which the page must know before anyone is logged
 * in
 * @param hasProviders whether the page must fetch the login methods
 * @throws when the page was not built
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
