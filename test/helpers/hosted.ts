import child_process, { type ChildProcess } from 'node:child_process';
import { EventEmitter } from 'node:events';
import fs, { readFileSync } from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import { createRequire } from 'node:module';
import net, { type Server, type Socket } from 'node:net';
import perf_hooks from 'node:perf_hooks';
import { Readable } from 'node:stream';
import timers from 'node:timers/promises';
import tls from 'node:tls';
import { promisify } from 'node:util';
import v8 from 'node:v8';
import worker_threads from 'node:worker_threads';
import { localHasher } from '../../src/accounts/passwords.js';
import type { Task } from '../../src/server/processes/hashing.js';
import { evaluateProgram, programOf } from '../loader/program.mjs';

/** How a process ended. */
export interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

interface Settings {
  readonly args: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  readonly input?: string;
}

type Callback = (...args: unknown[]) => void;
type Constructor = new (...args: never[]) => object;

const EXIT = Symbol('exit');
/** Time after which nothing of an ended program runs any more, milliseconds. */
const SETTLED_MS = 50;

/**
 * The program in this process, as if in one of its own: with its own modules, `process`, standard
 * streams and timers. It starts in a third of the time. Whatever it opened is closed when it ends,
 * at once after SIGKILL.
 */
export class Hosted {
  readonly ended: Promise<End>;
  stdout = '';
  stderr = '';
  readonly #settings: Settings;
  readonly #events = new EventEmitter();
  readonly #process: NodeJS.Process;
  /** Closes what is open. */
  readonly #open = new Map<object, () => void>();
  readonly #sleeps = new AbortController();
  #end!: (end: End) => void;
  #isRunning = true;
  /** Whether `exit` may not throw, because the caller's caller would be this process. */
  #isServing = false;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.ended = new Promise((resolve) => (this.#end = resolve));
    this.#process = this.#makeProcess();
  }

  get hasEnded(): boolean {
    return !this.#isRunning;
  }

  /** Runs the command line, until it serves or ends. */
  async run(): Promise<void> {
    try {
      await evaluateProgram(this.#require, [this.#process, ownGlobal(), ...this.#timers()]).run();
    } catch (error) {
      if (error !== EXIT) throw error;
    }
    this.#isServing = true;
  }

  /** Ends a command that has run. */
  finish(): void {
    this.#close({ code: Number(this.#process.exitCode ?? 0), signal: null });
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.#isRunning) return;
    if (signal === 'SIGKILL' || this.#events.listenerCount(signal) === 0)
      return this.#close({ code: null, signal });
    try {
      this.#events.emit(signal, signal);
    } catch (error) {
      if (error !== EXIT) throw error;
    }
  }

  #close(end: End): void {
    if (!this.#isRunning) return;
    this.#isRunning = false;
    this.#sleeps.abort();
    for (const close of this.#open.values()) close();
    this.#open.clear();
    this.#end(end);
  }

  #track<T extends object>(opened: T, close: () => void): T {
    if (this.#isRunning) this.#open.set(opened, close);
    else close();
    return opened;
  }

  #makeProcess(): NodeJS.Process {
    const events = this.#events;
    const { args, env, input = '' } = this.#settings;
    const emitter = [
      'on',
      'once',
      'off',
      'emit',
      'addListener',
      'removeListener',
      'removeAllListeners',
      'listenerCount',
    ] as const;
    const stderr = Object.assign(new EventEmitter(), {
      write: (text: string) => ((this.stderr += text), true),
    });
    const properties = {
      ...Object.fromEntries(emitter.map((name) => [name, events[name].bind(events)])),
      argv: [process.execPath, programOf(), ...args],
      env: env ?? {},
      exitCode: undefined,
      stdin: Readable.from(input === '' ? [] : [Buffer.from(input)]),
      stderr,
      exit: (code?: number) => {
        this.#close({ code: code ?? Number(this.#process.exitCode ?? 0), signal: null });
        if (!this.#isServing) throw EXIT;
      },
      kill: (pid: number, signal: NodeJS.Signals) => {
        if (pid !== process.pid || (signal as unknown) === 0) return process.kill(pid, signal);
        this.signal(signal);
        return true;
      },
    };
    const described = Object.entries(properties).map(([name, value]) => [
      name,
      { value, writable: true, enumerable: true, configurable: true },
    ]);
    return Object.create(process, Object.fromEntries(described) as PropertyDescriptorMap) as NodeJS.Process;
  }

  /** Global functions in the order of the program's parameters. */
  #timers(): unknown[] {
    const guarded =
      (callback: Callback, once?: () => object) =>
      (...args: unknown[]) => {
        if (once !== undefined) this.#open.delete(once());
        if (this.#isRunning) callback(...args);
      };
    const timeout = (callback: Callback, ms?: number, ...args: unknown[]): NodeJS.Timeout => {
      const timer: NodeJS.Timeout = setTimeout(
        guarded(callback, () => timer),
        ms,
        ...args,
      );
      return this.#track(timer, () => clearTimeout(timer));
    };
    const interval = (callback: Callback, ms?: number, ...args: unknown[]): NodeJS.Timeout => {
      const timer = setInterval(guarded(callback), ms, ...args);
      return this.#track(timer, () => clearInterval(timer));
    };
    const clear = (timer: NodeJS.Timeout | undefined): void => {
      if (timer !== undefined && timer !== null) this.#open.delete(timer);
      clearTimeout(timer);
    };
    return [
      timeout,
      interval,
      (callback: Callback, ...args: unknown[]) => setImmediate(guarded(callback), ...args),
      clear,
      clear,
    ];
  }

  readonly #require = Object.assign(
    (name: string): unknown => (this.#modules[name.replace(/^node:/, '')] ?? require)(name),
    { resolve: (name: string) => require.resolve(name) },
  );

  readonly #modules: Record<string, (name: string) => unknown> = once({
    net: () => ({
      ...net,
      Server: this.#class(net.Server, (server) => this.#server(server)),
      Socket: this.#class(net.Socket, (socket) => this.#socket(socket)),
      createServer: this.#result(net.createServer, (server) => this.#server(server)),
      connect: this.#result(net.connect, (socket) => this.#socket(socket)),
      createConnection: this.#result(net.createConnection, (socket) => this.#socket(socket)),
    }),
    tls: () => ({
      ...tls,
      Server: this.#class(tls.Server, (server) => this.#server(server)),
      TLSSocket: this.#class(tls.TLSSocket, (socket) => this.#socket(socket)),
      createServer: this.#result(tls.createServer, (server) => this.#server(server)),
      connect: this.#result(tls.connect, (socket) => this.#socket(socket)),
    }),
    http2: () => ({
      ...http2,
      createServer: this.#result(http2.createServer, (server) => this.#server(server)),
      createSecureServer: this.#result(http2.createSecureServer, (server) => this.#server(server)),
      connect: this.#result(http2.connect, (session) => this.#track(session, () => session.destroy())),
    }),
    http: () => ({
      ...http,
      createServer: this.#result(http.createServer, (server) => this.#server(server)),
    }),
    process: () => this.#process,
    fs: () => this.#fs(),
    'timers/promises': () => ({
      ...timers,
      setTimeout: async <T>(ms?: number, value?: T, options: { signal?: AbortSignal } = {}) => {
        const signals = [this.#sleeps.signal, ...(options.signal === undefined ? [] : [options.signal])];
        return timers
          .setTimeout(ms, value, { ...options, signal: AbortSignal.any(signals) })
          .catch((error: unknown) => {
            if (this.#isRunning) throw error;
            return new Promise<T>(() => undefined);
          });
      },
    }),
    child_process: () => ({ ...child_process, fork: () => this.#hashingProcess() }),
    worker_threads: () => ({
      ...worker_threads,
      Worker: this.#class(worker_threads.Worker, (worker) => {
        this.#track(worker, () => void worker.terminate());
        worker.once('exit', () => this.#open.delete(worker));
      }),
    }),
    perf_hooks: () => ({
      ...perf_hooks,
      PerformanceObserver: this.#class(perf_hooks.PerformanceObserver, (observer) =>
        this.#track(observer, () => observer.disconnect()),
      ),
      monitorEventLoopDelay: this.#result(perf_hooks.monitorEventLoopDelay, (histogram) =>
        this.#track(histogram, () => histogram.disable()),
      ),
    }),
    // Flags of V8 hold for the whole process.
    v8: () => ({ ...v8, setFlagsFromString: () => undefined }),
    lmdb: () => this.#lmdb(),
  });

  #class<T extends Constructor>(target: T, track: (made: InstanceType<T>) => void): T {
    return new Proxy(target, {
      construct: (_target, args, newTarget) => {
        const made = Reflect.construct(target, args, newTarget) as InstanceType<T>;
        track(made);
        return made;
      },
    });
  }

  #result<A extends unknown[], R extends object>(
    create: (...args: A) => R,
    track: (made: R) => void,
  ): (...args: A) => R {
    return (...args) => {
      const made = create(...args);
      track(made);
      return made;
    };
  }

  #server(server: Server): void {
    this.#track(server, () => void server.close());
    server.prependListener('connection', (socket: Socket) => this.#socket(socket));
    server.once('close', () => this.#open.delete(server));
  }

  #socket(socket: Socket): void {
    this.#track(socket, () => socket.destroy());
    socket.once('close', () => this.#open.delete(socket));
  }

  /** Standard streams are texts. */
  #fs(): object {
    const output = (file: number, bytes: Uint8Array): boolean => {
      if (file !== 1) return false;
      if (this.#isRunning) this.stdout += Buffer.from(bytes).toString();
      return true;
    };
    const write = (file: number, bytes: Uint8Array, ...rest: never[]) => {
      if (!output(file, bytes)) return (fs.write as Callback)(file, bytes, ...rest);
      setImmediate(() => (rest.at(-1) as unknown as Callback)(null, bytes.length, bytes));
    };
    write[promisify.custom] = async (file: number, bytes: Uint8Array, ...rest: never[]) =>
      output(file, bytes)
        ? { bytesWritten: bytes.length, buffer: bytes }
        : promisify(fs.write)(file, bytes, ...rest);
    return {
      ...fs,
      write,
      writeSync: (file: number, bytes: Uint8Array, ...rest: never[]) =>
        output(file, bytes) ? bytes.length : fs.writeSync(file, bytes, ...rest),
      fstatSync: (file: number) =>
        file === 1 ? { isFIFO: () => false, isSocket: () => false } : fs.fstatSync(file),
      readFileSync: (file: number | string, ...rest: never[]) =>
        file === 0 ? Buffer.from(this.#settings.input ?? '') : readFileSync(file, ...rest),
    };
  }

  #hashingProcess(): ChildProcess {
    const child = new EventEmitter();
    const answer = (result: object) => this.#isRunning && child.emit('message', result);
    const end = () => setImmediate(() => [child.emit('disconnect'), child.emit('exit', 0, null)]);
    return Object.assign(child, {
      connected: true,
      ref: () => undefined,
      unref: () => undefined,
      disconnect: end,
      kill: end,
      send: ({ latchkey: answers, value: task }: { latchkey: number; value: Task }) => {
        const work =
          'phc' in task
            ? localHasher.verify(task.phc, task.password)
            : localHasher.hash(task.password, task.parameters);
        work.then(
          (value) => answer({ answers, value }),
          (error: unknown) => answer({ answers, failed: String(error) }),
        );
      },
    }) as unknown as ChildProcess;
  }

  #lmdb(): object {
    const lmdb = require('lmdb') as typeof import('lmdb');
    return {
      ...lmdb,
      open: (...args: Parameters<typeof lmdb.open>) => {
        const database = lmdb.open(...args);
        return this.#track(
          database,
          () => void setTimeout(() => void database.close().catch(() => undefined), SETTLED_MS).unref(),
        );
      },
    };
  }
}

const require = createRequire(import.meta.url);

/** The global object, on which undici keeps its dispatcher, with properties of its own. */
function ownGlobal(): object {
  const own: Record<PropertyKey, unknown> = { __proto__: null };
  const dispatcher = Symbol.for('undici.globalDispatcher.1');
  return new Proxy(own, {
    get: (_own, name) => (name in own || name === dispatcher ? own[name] : Reflect.get(globalThis, name)),
    has: (_own, name) => name in own || name in globalThis,
  });
}

/** Makes each module once. */
function once(modules: Record<string, () => unknown>): Record<string, () => unknown> {
  return Object.fromEntries(
    Object.entries(modules).map(([name, make]) => {
      let made: unknown;
      return [name, () => (made ??= make())];
    }),
  );
}
