import { parentPort, workerData } from 'node:worker_threads';
import { loadDirectory } from '../../config/directory.js';
import { ConfigError } from '../../config/fault.js';
import type { DirectoryReading, DirectoryToRead } from './read-directory.js';

function read({ file, env, rules }: DirectoryToRead): DirectoryReading {
  try {
    return { directory: loadDirectory(file, env, rules) };
  } catch (error) {
    if (error instanceof ConfigError) return { faults: error.faults };
    throw error;
  }
}

// A thread's port has no origin.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
parentPort?.postMessage(read(workerData as DirectoryToRead));
