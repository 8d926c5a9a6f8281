import { Command, Option } from 'commander';
import { type LoadedConfig, loadConfig } from '../../config/load.js';
import type { Subject } from '../../domain/credential.js';
import type { User } from '../../domain/user.js';
import { type Question, Rehearsal } from '../../server/reload/rehearsal.js';
import type { Store } from '../../store/store.js';
import { CommandFailed, WrongUsage } from '../terminal/failure.js';
import { imaginedSession, imaginedToken } from './imagined.js';
import { configOption, jsonOption, listOf } from '../terminal/options.js';
import { readSecretInput } from '../terminal/password.js';
import { renderExplanation } from './render-explanation.js';
import { hasStore, withStore } from '../operate/store-access.js';

interface Options {
  readonly config: string;
  readonly method: string;
  readonly path: string;
  readonly header?: readonly string[];
  readonly key?: string;
  readonly user?: string;
  readonly scope?: string;
  readonly services?: string[];
  readonly anonymous?: true;
  readonly json?: true;
}

/** `latchkey explain`: what the server would do with a request, and every rule that leads to it. */
export function explainCommand(): Command {
  return new Command('explain')
    .description('say what the server would do with a request, and which rules lead to it')
    .addOption(configOption())
    .requiredOption('--method <method>', 'the method, like GET')
    .requiredOption('--path <target>', 'the request target as it is sent, query included, like /service/S1')
    .option('--header <line>', 'a header field, like "Origin: https://a"; can be given several times', collect)
    .addOption(
      new Option('--key <secret>', 'as whoever holds this API token or legacy key; - reads it from standard input')
        .conflicts(['user', 'anonymous']),
    )
    .addOption(
      new Option('--user <login>', 'as this user: by a session, or by a token when --scope or --services is given')
        .conflicts(['anonymous']),
    )
    .option('--scope <scopes>', 'scopes of the token, separated by spaces (default with --services: global)')
    .option('--services <ids>', 'services that the token is limited to, separated by commas', listOf)
    .option('--anonymous', 'without a credential')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Examples:
  latchkey explain --config latchkey.yaml --method GET --path /service/S1 --anonymous
  latchkey explain --config latchkey.yaml --method POST --path /service/S1/purge_all --user ada@example.com --scope purge_all --services S1

Nothing is forwarded and nothing is recorded. It exits with 0 whatever the verdict is.`,
    )
    .action(run); // prettier-ignore
}

async function run(options: Options): Promise<void> {
  if (options.key === undefined && options.user === undefined && options.anonymous === undefined) {
    throw new WrongUsage('explain: say who asks: --key SECRET, --user LOGIN or --anonymous');
  }
  if (options.user === undefined && (options.scope !== undefined || options.services !== undefined)) {
    throw new WrongUsage('explain: --scope and --services describe a token of --user LOGIN');
  }
  const loaded = loadConfig(options.config);
  const asked = {
    method: options.method,
    target: options.path,
    fields: (options.header ?? []).flatMap(fieldOf),
  };
  const answer = async (store: Store | null, as: Question['as']) => {
    const explanation = await new Rehearsal(loaded, store).ask({ ...asked, as }, Date.now());
    process.stdout.write(
      options.json ? `${JSON.stringify(explanation, null, 2)}\n` : renderExplanation(explanation),
    );
  };
  if (options.anonymous && !hasStore(loaded)) return answer(null, 'anonymous');
  return withStore(loaded, async ({ store }) => answer(store, await askerOf(options, store, loaded)));
}

async function askerOf(options: Options, store: Store, loaded: LoadedConfig): Promise<Question['as']> {
  if (options.anonymous) return 'anonymous';
  if (options.key !== undefined)
    return { key: options.key === '-' ? readSecretInput('the key') : options.key };
  const login = options.user ?? '';
  const user = (await store.getUserByLogin(login)) ?? (await store.getUser(login));
  if (user === undefined) {
    const { directory } = loaded.config;
    const mend = directory.file === null ? '' : '; is it in the directory file, and was that applied?';
    throw new CommandFailed(`no user has the login ${login}${mend}`);
  }
  return { subject: subjectOf(user, options) };
}

function subjectOf(user: User, { scope, services }: Options): Subject {
  if (scope === undefined && services === undefined) return imaginedSession(user);
  return imaginedToken(user, scope ?? 'global', services ?? []);
}

function collect(line: string, lines: readonly string[] = []): string[] {
  return [...lines, line];
}

function fieldOf(line: string): string[] {
  const colon = line.indexOf(':');
  if (colon <= 0) throw new WrongUsage(`explain: --header: expected "Name: value", got "${line}"`);
  return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
}
