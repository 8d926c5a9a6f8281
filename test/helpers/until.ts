/** Waits until something holds. */
export async function until(holds: () => boolean | Promise<boolean>, what: string, ms = 15_000): Promise<void> {
  for (const limit = Date.now() + ms; Date.now() < limit; ) {
    if (await holds()) return;
    await new Promise((wait) => setTimeout(wait, 20));
  }
  throw new Error(`waited ${ms} ms in vain: ${what}`);
} // prettier-ignore
