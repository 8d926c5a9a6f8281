import { ReplyError } from 'ioredis';
import { isUnsent } from './connect.js';
import { OutcomeUnknown, RecordUnreadable, StoreUnavailable } from '../faults.js';
import { DAMAGED, PARTLY } from './marks.js';
import type { MasterSession } from './session.js';

export function endIfLost(session: MasterSession | undefined, error: unknown): void {
  if (error instanceof ReplyError && /^(READONLY|MOVED|ASK) /.test((error as Error).message))
    session?.end(`it is no longer the master: ${(error as Error).message}`);
  // The library reports the closed connection only in a later turn of the event loop.
  else if (isUnsent(error) || session?.commands.status !== 'ready' || session.changes.status !== 'ready')
    session?.end('the connection was closed');
}

const FORBIDDEN = 'the Redis user lacks a permission of those in docs/storage.md';

const FAILED_SCRIPT = new RegExp(`^(${DAMAGED}|${PARTLY})(\\S+) (.*)$`, 's');

/** Whether Redis may have executed a command although it sent no reply. */
export function mayHaveExecuted(error: unknown): boolean {
  return !(error instanceof ReplyError || isUnsent(error));
}

export function asUnavailable(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  // Our own scripts refuse with a complete sentence.
  if (error instanceof Error && error.message.startsWith('LATCHKEY ')) {
    return new StoreUnavailable(error.message.slice('LATCHKEY '.length));
  }
  const [, report, key, reason] =
    FAILED_SCRIPT.exec(error instanceof ReplyError ? reasonOf(error) : '') ?? [];
  if (report === PARTLY) {
    const hint = isForbidden(error) ? `${FORBIDDEN}: ` : '';
    return new OutcomeUnknown(`it failed in the middle, at the key ${key}: ${hint}${reason}`, {
      cause: error,
    });
  }
  if (report === DAMAGED)
    return new RecordUnreadable(`the key ${key} in Redis is damaged (${reason})`, { cause: error });
  return new StoreUnavailable(`${kindOf(error)} (${reasonOf(error)})`, { cause: error });
}

function kindOf(error: unknown): string {
  if (isForbidden(error)) return FORBIDDEN;
  return isScriptError(error) ? 'a script failed in Redis' : 'Redis is unavailable';
}

/** Whether Redis refused a command, maybe while the connection was opened. */
function isForbidden(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof ReplyError && /\bNOPERM |can't run this command/.test(cause.message)) return true;
  return false;
}

/** Whether a script failed by itself. If a command in it was refused, the error is that command's. */
function isScriptError(error: unknown): boolean {
  if (!(error instanceof ReplyError)) return false;
  const { message } = error as Error;
  return message.startsWith('ERR ') && message.includes('user_script:') && !/ -[A-Z]+ /.test(message);
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether a change repeated on another master met other records: maybe its own effect. */
export function isConflict(answer: unknown): boolean {
  return answer === '';
}
