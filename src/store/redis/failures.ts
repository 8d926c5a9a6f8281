import { ReplyError } from 'ioredis';
import { StoreUnavailable } from '../faults.js';
import type { MasterSession } from './session.js';
import type { ScriptName } from './scripts.js';

/** Ends a session whose server says that it is no master of the store any more, or whose connection is gone. */
export function endIfLost(session: MasterSession | undefined, error: unknown): void {
  if (error instanceof ReplyError && /^(READONLY|MOVED|ASK) /.test((error as Error).message))
    session?.end(`it is no master any more: ${(error as Error).message}`);
  // The library tells it in a later turn.
  else if (isUnsent(error) || session?.commands.status !== 'ready' || session.changes.status !== 'ready')
    session?.end('the connection closed');
}

/** Whether Redis may have done what a command asked, though it answered nothing. */
export function mayHaveArrived(error: unknown): boolean {
  return !(error instanceof ReplyError || isUnsent(error));
}

/** The library refuses at once what it has no connection for. */
function isUnsent(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Stream isn't writeable");
}

/** The error that a caller of the store gets. */
export function asUnavailable(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  // What a script of ours refuses with is a whole sentence.
  if (error instanceof Error && error.message.startsWith('LATCHKEY ')) {
    return new StoreUnavailable(error.message.slice('LATCHKEY '.length));
  }
  return new StoreUnavailable(`Redis cannot answer (${reasonOf(error)})`, { cause: error });
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Whether a change that was sent to one master and made at the next says that there was nothing to end or to take. That may
 * be its own work: what ended at the first is made to end at the next before that is used.
 */
export function findsNothing(name: ScriptName, answer: unknown): boolean {
  if (name === 'revoke') return (answer as [missing: string[]])[0].length > 0;
  if (name === 'endSession') return (answer as [count: number])[0] === 0;
  return name === 'takeOtpStep' && answer === 0;
}
