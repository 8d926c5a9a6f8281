const HOUR_MS = 3_600_000;

/** Waits until something holds. */
export async function until(holds: () => boolean | Promise<boolean>, what: string, ms = 30_000): Promise<void> {
  for (const limit = Date.now() + ms; Date.now() < limit; ) {
    if (await holds()) return;
    await new Promise((wait) => setTimeout(wait, 20));
  }
  throw new Error(`waited ${ms} ms in vain: ${what}`);
} // prettier-ignore

/** Waits until the clock hour, in which writes are counted, has this long to go. A test that meets its end sees two hours. */
export async function untilHourLasts(ms: number): Promise<void> {
  await until(() => HOUR_MS - (Date.now() % HOUR_MS) > ms, 'a new hour begins', ms + 15_000);
}
