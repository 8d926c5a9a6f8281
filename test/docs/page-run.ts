import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { parse } from 'yaml';
import type { Test } from 'tap';
import { checkExpectations } from '../../src/commands/check.js';
import { loadDirectory, type DirectoryRules, directoryRules } from '../../src/config/directory.js';
import { loadConfig, loadConfigToServe } from '../../src/config/load.js';
import { startUpstream } from '../helpers/http.js';
import { type Running, start, temporaryFolder } from '../helpers/latchkey.js';
import { freePort } from '../helpers/free-port.mjs';
import { rememberSecret } from '../helpers/secrets.js';
import { programOf } from '../loader/program.mjs';
import type { Block } from './markdown.js';

const SHELL_MS = 300_000;
/** The shell's variables, kept from block to block as in a reader's terminal. */
const STATE = 'shell-state.txt';

/**
 * Follows a page in a temporary folder: writes its files, checks each of them, and runs its
 * commands, with the page's ports replaced by free ones.
 */
export class PageRun {
  readonly folder: string;
  readonly #t: Test;
  readonly #ports: ReadonlyMap<string, string>;
  #server: Running | undefined;
  #printed: string | undefined;
  readonly #unchecked = new Map<string, string>();

  private constructor(t: Test, folder: string, ports: ReadonlyMap<string, string>) {
    this.#t = t;
    this.folder = folder;
    this.#ports = ports;
  }

  /** Creates a run. @param stores additional addresses on the page, with their replacements */
  static async begin(t: Test, stores: ReadonlyMap<string, string> = new Map()): Promise<PageRun> {
    const folder = temporaryFolder(t);
    const upstream = await startUpstream(t);
    const latchkey = join(folder, 'latchkey');
    writeFileSync(latchkey, `#!/bin/sh\nexec '${process.execPath}' '${programOf()}' "$@"\n`);
    chmodSync(latchkey, 0o755);
    const ports = new Map([
      ['127.0.0.1:3000', new URL(upstream.url).host],
      ['127.0.0.1:8080', `127.0.0.1:${await freePort()}`],
      ['127.0.0.1:9901', `127.0.0.1:${await freePort()}`],
      ...stores,
    ]);
    return new PageRun(t, folder, ports);
  }

  /** Runs or writes one block. */
  async take(block: Block): Promise<void> {
    const { kind, text, line } = block;
    const place = `line ${line}`;
    if (kind === 'yaml') await this.#yaml(text, place);
    else if (kind === 'sh') await this.#shell(text, place);
    else if (kind === 'text') this.#text(text, place);
    else if (kind === 'json') this.#json(text, place);
    else this.#t.fail(`${place}: a block of ${kind || 'no kind'} is not checked; put <!-- run by TEST --> or <!-- not run: WHY --> before it`);
  } // prettier-ignore

  async #yaml(text: string, place: string): Promise<void> {
    const [, name] = /^# (\S+\.yaml)\b/.exec(text) ?? [];
    this.#printed = undefined;
    if (name === undefined) {
      const value = parse(text) as Record<string, unknown>;
      const upstream = 'upstream' in value || 'upstreams' in value ? '' : 'upstream: http://127.0.0.1:3000\n';
      const file = this.#write('fragment.yaml', `${upstream}${text}`);
      this.#t.doesNotThrow(() => loadConfig(file), `${place}: the settings pass`);
    } else if (name.startsWith('expect')) {
      this.checkFiles();
      const file = this.#write(name, text);
      const count = await checkExpectations(loadConfig(join(this.folder, 'latchkey.yaml')), file);
      this.#t.ok(count > 0, `${place}: ${count} requests are judged as ${name} says`);
    } else {
      const isConfig = !name.startsWith('directory') && !isShadow(name);
      this.#unchecked.set(this.#write(name, isConfig ? this.#withPorts(text) : text), place);
    }
  }

  /**
   * Checks the files written since the last call. This is deferred until the files that one refers
   * to exist too.
   */
  checkFiles(): void {
    const isDirectory = (file: string) => basename(file).startsWith('directory');
    for (const [file, place] of this.#unchecked) {
      const check = () => {
        if (isDirectory(file)) loadDirectory(file, process.env, this.#rules());
        else if (isShadow(basename(file))) loadConfigToServe(join(this.folder, 'latchkey.yaml'));
        else loadConfig(file);
      };
      this.#t.doesNotThrow(check, `${place}: ${basename(file)} passes`);
    }
    this.#unchecked.clear();
  }

  #rules(): DirectoryRules {
    const file = join(this.folder, 'latchkey.yaml');
    const rules = existsSync(file) ? directoryRules(loadConfig(file).config) : undefined;
    if (rules !== undefined && rules.roles.length > 0) return rules;
    const roles = ['superuser', 'engineer', 'billing', 'user'];
    return { roles, scopes: ['global', 'global:read', 'purge_select', 'purge_all'], maxLifetime: null };
  }

  /** Adds the ports that a reader leaves at their defaults, which may be in use on this machine. */
  #withPorts(text: string): string {
    const keys = parse(text) as object;
    const port = (at: string) => this.#ports.get(at)?.split(':')[1];
    const listen = 'listen' in keys ? '' : `listen: { host: 127.0.0.1, port: ${port('127.0.0.1:8080')} }\n`;
    const admin = 'admin' in keys ? '' : `admin: { port: ${port('127.0.0.1:9901')} }\n`;
    return `${text}${listen}${admin}`;
  }

  #write(name: string, text: string): string {
    const file = join(this.folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, this.#exchanged(text), { mode: 0o600 });
    return file;
  }

  #exchanged(text: string): string {
    return [...this.#ports].reduce((all, [from, to]) => all.replaceAll(from, to), text);
  }

  /** Runs commands; one that starts a server waits until it is ready and leaves it running. */
  async #shell(text: string, place: string): Promise<void> {
    this.checkFiles();
    this.#printed = '';
    for (const part of text.split(/^(latchkey serve(?: .*)?)$/m)) {
      const [served, config = 'latchkey.yaml'] = /^latchkey serve(?: --config (\S+))?/.exec(part) ?? [];
      if (served === undefined) this.#printed += await this.#bash(part, place);
      else {
        await this.#server?.stop();
        this.#server = await start(this.#t, join(this.folder, config));
        this.#t.pass(`${place}: the server is ready`);
      }
    }
  }

  async #bash(lines: string, place: string): Promise<string> {
    if (lines.trim() === '') return '';
    const state = existsSync(join(this.folder, STATE)) ? `. ./${STATE}\n` : '';
    const script = `${state}set -a\ntrap 'export -p > ${STATE}' EXIT\n${this.#exchanged(lines)}`;
    const env = { ...process.env, PATH: `${this.folder}:${process.env['PATH']}` };
    const child = spawn('bash', ['-euo', 'pipefail', '-c', script], {
      cwd: this.folder,
      env,
      timeout: SHELL_MS,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    const [code] = (await once(child, 'close')) as [number | null];
    for (const [secret] of `${stdout}${stderr}`.matchAll(/\blk[0-9A-Za-z]{38}\b/g)) rememberSecret(secret);
    this.#t.equal(code, 0, `${place}: runs\n${stderr}`);
    return stdout;
  }

  /** Compares the output of the previous commands, if any; `...` matches anything within a line. */
  #text(text: string, place: string): void {
    if (this.#printed === undefined) return;
    const pattern = text.trimEnd().split('...').map(escaped).join('.*');
    const printed = this.#restored(this.#printed).trimEnd();
    this.#t.match(printed, new RegExp(`^${pattern}$`), `${place}: this is what is printed`);
  }

  #json(text: string, place: string): void {
    const value = JSON.parse(text) as unknown;
    if (this.#printed === undefined) return void this.#t.pass(`${place}: is JSON`);
    const printed = JSON.parse(this.#restored(this.#printed)) as unknown;
    this.#t.match(printed, anything(value), `${place}: this is what is answered`);
  }

  /** The output with the original ports of the page. */
  #restored(text: string): string {
    return [...this.#ports].reduce((all, [from, to]) => all.replaceAll(to, from), text);
  }
}

/** True for a shadow policy of the page's configuration. */
function isShadow(name: string): boolean {
  return name.startsWith('next-policy');
}

/** A pattern in which `...` within a string matches anything. */
function anything(value: unknown): unknown {
  if (typeof value === 'string' && value.includes('...')) {
    return new RegExp(`^${value.split('...').map(escaped).join('.*')}$`);
  }
  if (Array.isArray(value)) return value.map(anything);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, anything(each)]));
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
