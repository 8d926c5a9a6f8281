import type { ProviderSettings } from '../accounts/oidc/settings.js';
import { printable } from '../observe/printable.js';
import { checkProvider, reasonOf } from './online-checks.js';

/** A provider is asked no more often. */
const INTERVAL_MS = 30_000;

interface Watched {
  askedAt: number;
  fault: string | null;
}

/**
 * Tells which identity providers do not answer. They are asked in the background when somebody wants to know: whoever asks
 * gets what was found out last, and never waits.
 */
export class ProviderWatch {
  readonly #watched = new Map<string, Watched>();

  /** What is wrong with providers, by `login.oidc.NAME`. */
  warnings(providers: readonly ProviderSettings[]): Record<string, string> {
    const warnings: Record<string, string> = {};
    for (const provider of providers) {
      const { fault } = this.#look(provider);
      if (fault !== null) warnings[`login.oidc.${provider.name}`] = fault;
    }
    return warnings;
  }

  #look(provider: ProviderSettings): Watched {
    const key = `${provider.issuer} ${provider.client_id}`;
    const watched = this.#watched.get(key) ?? { askedAt: -Infinity, fault: null };
    this.#watched.set(key, watched);
    const now = performance.now();
    if (now - watched.askedAt < INTERVAL_MS) return watched;
    watched.askedAt = now;
    checkProvider(provider).then(
      () => (watched.fault = null),
      (error: unknown) => (watched.fault = `it does not answer: ${printable(reasonOf(error))}`),
    );
    return watched;
  }
}
