import { Argument, Command, type Option } from 'commander';
import { print } from './terminal/print.js';

/** `latchkey completion`: prints a shell script that completes commands, options and file names. */
export function completionCommand(): Command {
  return new Command('completion')
    .description('print a script that completes commands and options in your shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh']))
    .addHelpText(
      'after',
      `
  bash: add to ~/.bashrc    eval "$(latchkey completion bash)"
  zsh:  add to ~/.zshrc     eval "$(latchkey completion zsh)"    (after compinit)`,
    )
    .action((shell: string, _options: unknown, command: Command) => {
      const program = command.parent ?? command;
      print(shell === 'zsh' ? zshScript(program) : bashScript(program));
    });
} // prettier-ignore

/**
 * What can follow a command: `words` are its subcommands and options, `argument` the choices of its
 * argument.
 */
interface Entry {
  readonly path: string;
  readonly words: readonly string[];
  readonly argument: readonly string[];
}

function entriesOf(command: Command, path: readonly string[] = []): Entry[] {
  const names = command.commands.map((sub) => sub.name());
  const options = command.options.flatMap(flagsOf);
  const help = path.length === 0 ? ['help', '--help'] : ['--help'];
  return [
    {
      path: path.join(' '),
      words: [...names, ...options, ...help],
      argument: command.registeredArguments[0]?.argChoices ?? [],
    },
    ...command.commands.flatMap((sub) => entriesOf(sub, [...path, sub.name()])),
  ];
}

function flagsOf(option: Option): string[] {
  return [option.long, option.short].filter((flag) => flag != null);
}

function fileFlags(command: Command): string[] {
  const own = command.options.filter(({ flags }) => /<(file|dir)>/.test(flags)).flatMap(flagsOf);
  return [...new Set([...own, ...command.commands.flatMap(fileFlags)])];
}

/** Contains fixed words only, so that a completion need not start Latchkey. */
function bashScript(program: Command): string {
  const entries = entriesOf(program);
  return `# bash completion of latchkey
_latchkey() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" path='' words='' word
  case "$previous" in
    ${fileFlags(program).join('|')}) COMPREPLY=( $(compgen -f -- "$current") ); return ;;
  esac
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$path $word" in
${entries
  .filter(({ path }) => path !== '')
  .map(({ path }) => `      '${path.includes(' ') ? path : ` ${path}`}') path='${path}' ;;`)
  .join('\n')}
    esac
  done
  case "$path" in
${entries.map(({ path, words }) => caseOf(path, words)).join('\n')}
  esac
  if [[ "$current" != -* ]]; then case "$path" in
${entries
  .filter(({ argument }) => argument.length > 0)
  .map(({ path, argument }) => caseOf(path, argument))
  .join('\n')}
  esac; fi
  COMPREPLY=( $(compgen -W "$words" -- "$current") )
}
complete -o filenames -o bashdefault -F _latchkey latchkey
`;
}

function caseOf(path: string, words: readonly string[]): string {
  return `    '${path}') words='${words.join(' ')}' ;;`;
}

/** Runs the bash function in zsh's own bash emulation. */
function zshScript(program: Command): string {
  return `autoload -U +X bashcompinit && bashcompinit\n${bashScript(program)}`;
}
