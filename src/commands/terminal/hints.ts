import type { Command } from 'commander';

/** Keys of the configuration that people try as options of `serve`. */
const KEYS: Readonly<Record<string, string>> = {
  '--data': 'store.path',
  '--host': 'listen.host',
  '--port': 'listen.port',
  '--upstream': 'upstream',
  '--workers': 'workers',
};

/** Returns a hint to add to an error about arguments, which Commander does not know; or nothing. */
export function hintFor(error: string, command: Command): string {
  const [, flag = ''] = /^error: unknown option '(-[^']*)'/.exec(error) ?? [];
  const key = KEYS[flag];
  if (command.name() === 'serve' && key !== undefined) return `(set ${key} in the configuration)`;
  const takes = (option: string) => command.options.some(({ long }) => long === option);
  const takesConfig = takes('--config');
  if (takesConfig && flag === '-c') return '(Did you mean --config?)';
  if (takesConfig && error.startsWith('error: too many arguments'))
    return takes('--user')
      ? '(name the user with --user LOGIN, and the configuration with --config FILE)'
      : '(name the configuration with --config FILE)';
  return '';
}
