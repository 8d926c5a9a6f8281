import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

const PATHS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * Returns the path of Chromium. If it is missing and that is allowed, installs it from Debian's
 * packages.
 */
function needChromium(): string {
  const found = () => PATHS.find((path) => existsSync(path));
  if (found() === undefined && process.getuid?.() === 0) {
    spawnSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', 'chromium']);
  }
  const path = found();
  if (path === undefined) throw new Error('these tests need Chromium: apt-get install chromium');
  return path;
}

/** Starts Chromium; it ends with the test. */
export async function startChromium(t: Test): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: needChromium(),
    // The sandbox does not work as root, and a small /dev/shm must not crash it.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  t.teardown(() => browser.close());
  return browser;
}

/** A page in its own browser profile, with the faults seen there. */
export interface Visit {
  readonly page: Page;
  /** Script errors and violations of the content security policy. */
  readonly faults: string[];
  /** Every requested URL. */
  readonly requested: string[];
}

/** Opens a URL in a fresh profile. */
export async function visit(
  t: Test,
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Visit> {
  const context = await browser.newContext({ timezoneId: 'Asia/Tokyo', ...options });
  context.setDefaultTimeout(60_000);
  t.teardown(() => context.close());
  const page = await context.newPage();
  const faults: string[] = [];
  const requested: string[] = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    // The browser itself logs each refused call; tests check those where they matter.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      faults.push(message.text());
  });
  page.on('request', (request) => requested.push(request.url()));
  await page.goto(url);
  return { page, faults, requested };
}

/** Logs in on the page. */
export async function logIn(page: Page, user: string, password: string): Promise<void> {
  await page.getByLabel('Login name').fill(`${user}@example.com`);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
}

/** Returns the findings of axe-core, one line each. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  // Injected by the debugger: the document's policy would refuse it.
  await page.evaluate(AXE);
  const found = await page.evaluate<{ id: string; nodes: { target: string[]; failureSummary: string }[] }[]>(
    'axe.run(document, { resultTypes: ["violations"] }).then((result) => result.violations)',
  );
  return found.flatMap(({ id, nodes }) =>
    nodes.map((n) => `${id}: ${n.target.join(' ')}: ${n.failureSummary}`),
  );
}
