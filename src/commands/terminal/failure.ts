/** Thrown when a command fails; its message is one line for a person. */
export class CommandFailed extends Error {
  readonly code: string = 'COMMAND_FAILED';
}

/** Thrown when a command is called with wrong arguments (exit code 2). */
export class WrongUsage extends CommandFailed {
  override readonly code = 'WRONG_USAGE';
}

/** Thrown when standard output cannot be written. */
export class OutputFailed extends CommandFailed {
  override readonly code = 'OUTPUT_FAILED';
  /** Whether its reader only wanted a part, like `head`, so that nothing needs to be reported. */
  readonly isQuiet: boolean;

  constructor(message: string, { isQuiet, cause }: { isQuiet: boolean; cause: unknown }) {
    super(message, { cause });
    this.isQuiet = isQuiet;
  }
}
