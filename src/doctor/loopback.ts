import type { ProbeResponse } from './message.js';
import { isLoopback } from './trust.js';

/** Whether all responses came from loopback, which clients on other machines cannot reach. */
export function isLocal(answers: readonly ProbeResponse[]): boolean {
  return answers.every(({ remote }) => remote === '' || isLoopback(remote));
}

/** Returns what a summary says about responses from loopback; empty for others. */
export function onLoopback(answers: readonly ProbeResponse[]): string {
  return isLocal(answers)
    ? ', which is loopback: only programs on this machine reach it. Run doctor from where clients are'
    : '';
}
