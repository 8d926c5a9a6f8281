/** Thrown when a command fails; its message is one line for a person. */
export class CommandFailed extends Error {
  readonly code: string = 'COMMAND_FAILED';
}

/** Thrown when a command is called with wrong arguments (exit code 2). */
export class WrongUsage extends CommandFailed {
  override readonly code = 'WRONG_USAGE';
}
