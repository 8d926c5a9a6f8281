import { isIP } from 'node:net';
import { type LoadedConfig, loadConfig } from '../config/load.js';
import type { Subject } from '../domain/credential.js';
import type { User } from '../domain/user.js';
import { type SimulatedRequest, Simulator } from '../pipeline/simulate.js';
import { maskTokens } from '../domain/mask-tokens.js';
import type { Store } from '../store/store.js';
import { syntheticSession, syntheticToken } from '../gate/what-if.js';
import { WrongUsage } from './terminal/failure.js';
import { readSecret } from './terminal/password.js';
import { renderExplanation } from './render-explanation.js';
import { hasStore, withStore } from './with-store.js';
import { asJson } from './terminal/output.js';
import { findUser } from './find-user.js';
import type { NamedBy } from './terminal/options.js';
import { print } from './terminal/print.js';

export interface ExplainOptions extends NamedBy {
  readonly config: string;
  readonly method?: string;
  readonly path: string;
  readonly header?: readonly string[];
  readonly address?: string;
  readonly key?: string;
  readonly keyFile?: string;
  readonly jwt?: string;
  readonly user?: string;
  readonly scope?: string;
  readonly services?: string[];
  readonly anonymous?: true;
  readonly tokenId?: string;
  readonly json?: true;
}

/** Prints what the server would do with a request, and every rule that contributes to it. */
export async function runExplain(options: ExplainOptions): Promise<void> {
  checkUsage(options);
  const loaded = loadConfig(options.config);
  const request = {
    method: options.method ?? 'GET',
    target: options.path,
    fields: (options.header ?? []).flatMap(fieldOf),
    address: options.address,
  };
  const answer = async (store: Store | null, as: SimulatedRequest['as']) => {
    const explanation = await new Simulator(loaded, store).simulate({ ...request, as }, Date.now());
    print(options.json ? maskedJson(explanation) : renderExplanation(explanation));
  };
  if (options.tokenId !== undefined) {
    const { tokenId } = options;
    const { explainToken } = await import('./explain-token.js');
    await withStore(loaded, async ({ store }) => {
      const explained = await explainToken(loaded, store, tokenId, request, Date.now());
      print(options.json ? maskedJson(explained.object) : explained.text);
    });
    return undefined;
  }
  if (options.anonymous && !hasStore(loaded)) return answer(null, 'anonymous');
  if (options.jwt !== undefined && !hasStore(loaded))
    return answer(null, { jwt: readSecret(options.jwt, 'the JWT') });
  return withStore(loaded, async ({ store }) => answer(store, await senderOf(options, store, loaded)));
}

function checkUsage(options: ExplainOptions): void {
  const { key, keyFile, jwt, user, anonymous, tokenId, address, scope, services } = options;
  if (address !== undefined && isIP(address) === 0)
    throw new WrongUsage('explain: --address: expected an IP address');
  if ([key, keyFile, jwt, user, anonymous, tokenId].every((who) => who === undefined)) {
    throw new WrongUsage(
      'explain: choose a credential: --key-file FILE, --key -, --jwt FILE, --token-id ID, --user LOGIN or --anonymous',
    );
  }
  if (user === undefined && (scope !== undefined || services !== undefined))
    throw new WrongUsage('explain: --scope and --services describe a token of --user LOGIN');
}

function maskedJson(value: unknown): string {
  return maskTokens(asJson(value));
}

async function senderOf(
  options: ExplainOptions,
  store: Store,
  loaded: LoadedConfig,
): Promise<SimulatedRequest['as']> {
  if (options.anonymous) return 'anonymous';
  if (options.jwt !== undefined) return { jwt: readSecret(options.jwt, 'the JWT') };
  const key = keyOf(options);
  if (key !== undefined) return { key };
  const { directory } = loaded.config;
  const hint = directory.file === null ? '' : '; is it in the directory file, and has that been applied?';
  const user = await findUser(store.directory, options.user ?? '', options, hint);
  return { subject: subjectOf(user, options) };
}

function keyOf({ key, keyFile }: ExplainOptions): string | undefined {
  const file = key === '-' ? '-' : keyFile;
  return file === undefined ? key : readSecret(file, 'the key');
}

function subjectOf(user: User, { scope, services }: ExplainOptions): Subject {
  if (scope === undefined && services === undefined) return syntheticSession(user);
  return syntheticToken(user, scope ?? 'global', services ?? []);
}

function fieldOf(line: string): string[] {
  const colon = line.indexOf(':');
  if (colon <= 0) throw new WrongUsage(`explain: --header: expected "Name: value", got "${line}"`);
  return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
}
