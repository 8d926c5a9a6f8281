import type { FleetReceipt } from '../accounts/fleet-receipts.js';
import type { Logins } from '../accounts/login.js';
import type { ProviderLogins } from '../accounts/oidc/provider-logins.js';
import type { Sessions } from '../accounts/sessions.js';
import type { KeyRing } from '../accounts/signing-keys.js';
import type { TokenRotations } from '../accounts/token-rotations.js';
import type { Tokens } from '../accounts/tokens.js';
import type { MaybePromise } from '../util/async.js';
import type { Gate } from '../gate/gate.js';
import type { Ownership } from '../gate/ownership.js';
import type { Content } from '../http/replies.js';
import type { Policy } from '../policy/decide.js';
import type { DirectoryStore } from '../store/core/directory.js';
import type { pageSettings } from './page-settings.js';
import type { ResourceMetadata } from './schema/responses.js';

export interface EndpointServices {
  readonly directory: DirectoryStore;
  readonly policy: Policy;
  readonly logins: Logins;
  readonly sessions: Sessions;
  readonly tokens: Tokens;
  readonly rotations: TokenRotations;
  /** @param sentAt as for `collectReceipt` */
  readonly collectReceipt: (sentAt: number) => Promise<FleetReceipt>;
  readonly ownership: Ownership;
  /** Null when there is no `POST /sudo`. */
  readonly identify: Gate['identify'] | null;
  /** Null when there are no assertions. */
  readonly signingKeys: KeyRing | null;
  readonly sessionCookie: string;
  /** Null without `interface.protected_resource`. */
  readonly resource: ResourceMetadata | null;
  /** Null without OpenID Connect providers. */
  readonly oidc: {
    readonly logins: ProviderLogins;
    /** As browsers see it. */
    readonly pageUrl: string;
    readonly hasPasswords: () => MaybePromise<boolean>;
  } | null;
  readonly page: ReturnType<typeof pageSettings>;
  /** Whether this process serves requests: its store is available, and it is not shutting down. */
  readonly isReady: () => Promise<boolean>;
  readonly interfaceDocument: () => Promise<Content>;
}
