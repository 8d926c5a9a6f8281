import './early-signals.js';
import { readdirSync } from 'node:fs';
import { setPriority } from 'node:os';
import { loadHasher, localHasher } from '../../accounts/passwords.js';
import type { Task } from './hashing.js';
import { answer } from './messages.js';

// The process that computes password hashes. `hashing.ts` starts it and communicates with it.

const LOW_PRIORITY = 10;

try {
  setPriority(LOW_PRIORITY);
  // On Linux the priority is per thread: set for all that run, and inherited by later ones.
  for (const thread of readdirSync('/proc/self/task')) setPriority(Number(thread), LOW_PRIORITY);
} catch {
  // Elsewhere the priority is per process. Where none can be set, hashing competes with serving.
}

// A signal to the server's process group must not end logins in progress. This process ends with its parent.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
process.once('disconnect', () => process.exit());

// Node.js would repeat the error of a failed load for every password; a new process tries again.
await loadHasher().catch(() => process.exit(1));

answer(process, {
  hash: async (value) => {
    const task = value as Task;
    return 'phc' in task
      ? localHasher.verify(task.phc, task.password)
      : localHasher.hash(task.password, task.parameters);
  },
});
