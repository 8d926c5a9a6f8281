import { readdirSync } from 'node:fs';
import { setPriority } from 'node:os';
import { localHasher } from '../../accounts/hasher.js';
import type { HashingResult, Task } from './hashing.js';

// The process that password hashes are worked out in; `hashing.ts` starts it and talks to it.

/** A tenth of what a thread that serves gets. At 19 it is a hundredth, and a busy neighbor would starve logins. */
const LOW_PRIORITY = 10;

/** On Linux a priority is a thread's: those that run already get it too, and later ones take it over. */
function yieldToOthers(): void {
  setPriority(LOW_PRIORITY);
  for (const thread of readdirSync('/proc/self/task')) setPriority(Number(thread), LOW_PRIORITY);
}

try {
  yieldToOthers();
} catch {
  // Elsewhere a priority is the whole process's. Where none can be set, hashing is felt by others.
}

// Whoever ends the server's process group would end logins that are under way; this process ends with its parent.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2'] as const) process.on(signal, () => undefined);
process.once('disconnect', () => process.exit());

async function work(task: Task): Promise<string | boolean> {
  return 'phc' in task
    ? localHasher.verify(task.phc, task.password)
    : localHasher.hash(task.password, task.parameters);
}

process.on('message', ({ id, task }: { readonly id: number; readonly task: Task }) => {
  const answer = (rest: Omit<HashingResult, 'id'>) => process.send?.({ id, ...rest } satisfies HashingResult);
  work(task).then(
    (value) => answer({ value }),
    (error: unknown) => answer({ failed: String(error) }),
  );
});
