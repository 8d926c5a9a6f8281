import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';
import type { Config } from '../config/schema/config.js';
import type { Content } from '../http/replies.js';
import type { Rules } from '../policy/decide.js';

/** A request's path is only ever compared with the names of files. */
export interface PageFiles {
  readonly html: Content;
  /** By name, which contains a digest. */
  readonly assets: ReadonlyMap<string, Content>;
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
      html: { type: 'text/html; charset=utf-8', bytes: Buffer.from(html), immutable: false },
      assets: new Map(
        readdirSync(assets).map((name) => {
          const bytes = readFileSync(new URL(name, assets));
          return [name, { type: TYPES[extname(name)] ?? '', bytes, immutable: true }];
        }),
      ),
    };
  } catch (error) {
    throw new Error('the web page is not built; run "npm run build", or set interface.ui.enabled: false', {
      cause: error,
    });
  }
}

const WEEK_MS = 7 * 86_400_000;

/** What the page needs of the configuration. @param keyName name of the field that carries a token */
export function pageSettings(config: Config, keyName: string, files: PageFiles | null) {
  const { interface: own, login, policy, sessions, tokens } = config;
  const { rotation, max_lifetime: maxLifetime, warn_before: warnBefore } = tokens;
  return {
    /** Null when the page is off. */
    files,
    /** With leading and trailing slash. */
    path: own.ui.path,
    publicUrl: login.public_url,
    /** Of sessions, milliseconds. */
    idleTimeout: sessions.idle_timeout,
    /** The part of `Caller` that is the same for all. */
    callers: {
      scopes: Object.entries(policy.scopes).map(([name, rules]) => describeScope(name, rules)),
      rotation: { overlap: seconds(rotation.overlap), max_overlap: seconds(rotation.max_overlap) },
      max_lifetime: maxLifetime === null ? null : seconds(maxLifetime),
      warn_before: seconds(warnBefore ?? WEEK_MS),
      key_field: keyName,
      public_url: login.public_url,
    },
  };
}

export function seconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}

/** By permission and not by scope name, because a configuration can redefine names. */
const KNOWN: readonly (readonly [allow: string, title: string, description: string])[] = [
  ['*', 'Full access', 'Can do everything that you can do, in the services and in the account.'],
  ['*:read', 'Read only', 'Can read everything that you can read, and changes nothing.'],
  ['purge:select', 'Purge selected', 'Can purge by URL and by surrogate key, and nothing else.'],
  ['purge:all', 'Purge all', 'Can purge everything in a service at once, and nothing else.'],
];

function describeScope(
  name: string,
  { allow = [], deny = [], description }: Rules & { readonly description?: string | undefined },
) {
  const known =
    allow.length === 1 && deny.length === 0 ? KNOWN.find(([rule]) => rule === allow[0]) : undefined;
  if (description !== undefined) return { name, title: known?.[1] ?? name, description };
  if (known !== undefined) return { name, title: known[1], description: known[2] };
  const may = allow.length === 0 ? 'Allows nothing' : `Allows ${allow.join(', ')}`;
  const but = deny.length === 0 ? '' : `, but never ${deny.join(', ')}`;
  return { name, title: name, description: `${may}${but}.` };
}
