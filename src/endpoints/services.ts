import type { FleetReceipts } from '../accounts/fleet-receipts.js';
import type { Logins } from '../accounts/login.js';
import type { ProviderLogins } from '../accounts/oidc/provider-logins.js';
import type { Sessions } from '../accounts/sessions.js';
import type { KeyRing } from '../accounts/signing-keys.js';
import type { SudoGrants } from '../accounts/sudo-grants.js';
import type { TokenRotations } from '../accounts/token-rotations.js';
import type { Tokens } from '../accounts/tokens.js';
import type { MaybePromise } from '../util/async.js';
import type { Gate } from '../gate/gate.js';
import type { Ownership } from '../gate/ownership.js';
import type { Content } from '../http/replies.js';
import type { Policy } from '../policy/decide.js';
import type { DescribedRules } from './scope-words.js';
import type { DirectoryStore } from '../store/directory-store.js';
import type { PageFiles } from './page-files.js';
import type { ResourceMetadata } from './schema/responses.js';

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
  /** Null when there is no `POST /sudo`. */
  readonly identify: Gate['identify'] | null;
  /** Null when there are no assertions. */
  readonly signingKeys: KeyRing | null;
  readonly sessionCookie: string;
  /** Null without `interface.protected_resource`. */
  readonly resource: ResourceMetadata | null;
  /** Null without OpenID Connect providers. */
  readonly oidc: OidcSettings | null;
  readonly page: PageSettings;
  /** Whether this process serves requests: its store is available, and it is not shutting down. */
  readonly isReady: () => Promise<boolean>;
  readonly interfaceDocument: () => Promise<Content>;
}

interface OidcSettings {
  readonly logins: ProviderLogins;
  /** As browsers see it. */
  readonly pageUrl: string;
  readonly hasPasswords: () => MaybePromise<boolean>;
}

interface PageSettings {
  /** Null when the page is off. */
  readonly files: PageFiles | null;
  /** With leading and trailing slash. */
  readonly path: string;
  /** Of the field that carries a token. */
  readonly keyName: string;
  /** Other ways to send a token. */
  readonly accepts: { readonly bearer: boolean; readonly basic: boolean };
  /** Of `login.public_url`. */
  readonly publicUrl: string | null;
  readonly scopes: Readonly<Record<string, DescribedRules>>;
  /** Milliseconds; null when unlimited. */
  readonly maxLifetime: number | null;
  /** Milliseconds before its expiry from which on a token is marked. */
  readonly warnBefore: number | null;
  /** Milliseconds. */
  readonly rotation: { readonly overlap: number; readonly max_overlap: number };
  /** Of sessions, milliseconds. */
  readonly idleTimeout: number;
}
