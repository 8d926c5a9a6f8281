import { realpathSync, statSync } from 'node:fs';

const INTERVAL_MS = 1_000;

/**
 * Calls back when one of some files is another one: written anew, replaced, or behind another symbolic link, as
 * Kubernetes swaps them. It looks once a second and waits until a file was the same twice, so that one that is
 * still being written is not read halfway. Stop it with `clearInterval`.
 */
export function watchFiles(files: () => readonly string[], onChange: () => void): NodeJS.Timeout {
  let taken = files().map(signature).join('\n');
  let last = taken;
  return setInterval(() => {
    const now = files().map(signature).join('\n');
    if (now !== taken && now === last) {
      taken = now;
      onChange();
    }
    last = now;
  }, INTERVAL_MS).unref();
}

function signature(file: string): string {
  try {
    const { ino, size, mtimeMs } = statSync(file);
    return `${realpathSync(file)} ${ino} ${size} ${mtimeMs}`;
  } catch {
    return `${file} is not there`;
  }
}
