import type { FleetReceipts } from '../accounts/fleet-receipts.js';
import type { Logins } from '../accounts/login.js';
import type { ProviderLogins } from '../accounts/oidc/provider-logins.js';
import type { Sessions } from '../accounts/sessions.js';
import type { KeyRing } from '../accounts/signing-keys.js';
import type { SudoGrants } from '../accounts/sudo-grants.js';
import type { TokenRotations } from '../accounts/token-rotations.js';
import type { Tokens } from '../accounts/tokens.js';
import type { MaybePromise } from '../domain/maybe-promise.js';
import type { Gate } from '../gate/gate.js';
import type { Ownership } from '../gate/ownership.js';
import type { Content } from '../http/replies.js';
import type { Policy } from '../policy/decide.js';
import type { DescribedRules } from './scope-words.js';
import type { DirectoryStore } from '../store/directory-store.js';
import type { PageFiles } from './page-files.js';

/** What the handlers of the built-in endpoints work with. */
export interface EndpointServices {
  readonly directory: DirectoryStore;
  readonly policy: Policy;
  readonly logins: Logins;
  readonly sessions: Sessions;
  readonly tokens: Tokens;
  readonly rotations: TokenRotations;
  readonly receipts: Pick<FleetReceipts, 'collect'>;
  readonly ownership: Ownership;
  readonly sudoGrants: SudoGrants;
  /** Whose credential a request has; null when there is no `POST /sudo`. */
  readonly identify: Gate['identify'] | null;
  /** null when there are no assertions. */
  readonly signingKeys: KeyRing | null;
  readonly sessionCookie: string;
  /** Whether `Authorization: Bearer` is a credential, which a 401 says. */
  readonly takesBearer: boolean;
  /** null without OpenID Connect providers. */
  readonly oidc: OidcSettings | null;
  readonly page: PageSettings;
  readonly interfaceDocument: () => Promise<Content>;
}

/** Logins at OpenID Connect providers. */
interface OidcSettings {
  readonly logins: ProviderLogins;
  /** The address of the web page as browsers see it. */
  readonly pageUrl: string;
  /** Whether anybody may have a password. */
  readonly hasPasswords: () => MaybePromise<boolean>;
}

/** The web page, and what it shows of the configuration. */
interface PageSettings {
  /** null when the page is off. */
  readonly files: PageFiles | null;
  /** Where it is, with a slash at both ends. */
  readonly path: string;
  /** Name of the field that carries a token. */
  readonly keyName: string;
  readonly scopes: Readonly<Record<string, DescribedRules>>;
  /** Milliseconds; null when tokens may last for ever. */
  readonly maxLifetime: number | null;
  /** Milliseconds before its expiry from which on a token is marked; null when nothing says so. */
  readonly warnBefore: number | null;
  /** Milliseconds. */
  readonly rotation: { readonly overlap: number; readonly max_overlap: number };
  /** Milliseconds without a request after which a session ends. */
  readonly idleTimeout: number;
}
