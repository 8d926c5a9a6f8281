/** A command that could not do what it was asked to; its message is one line for a person. */
export class CommandFailed extends Error {
  readonly code: string = 'COMMAND_FAILED';
}

/** A command that was called in a way that it does not understand (exit code 2). */
export class WrongUsage extends CommandFailed {
  override readonly code = 'WRONG_USAGE';
}
