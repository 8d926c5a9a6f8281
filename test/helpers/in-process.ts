import { createHash } from 'node:crypto';
import type { ClientHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { stringify } from 'yaml';
import { type Hasher, localHasher, Passwords } from '../../src/accounts/passwords.js';
import { logSettings } from '../../src/config/mask.js';
import { type LoadedConfig, loadConfigToServe } from '../../src/config/load.js';
import type { PageFiles } from '../../src/endpoints/page-settings.js';
import type { Serve } from '../../src/http/exchange.js';
import { joinValues } from '../../src/http/fields.js';
import { type HeadLimits, parserLimits } from '../../src/http/read-head.js';
import { refusalReply } from '../../src/http/replies.js';
import { DEFAULT_LIMITS } from '../../src/http1/events.js';
import { createDecisionListener, denial } from '../../src/listeners/decision/check.js';
import { createRequestListener, refusalOutside } from '../../src/listeners/http.js';
import { Http1Connection } from '../../src/listeners/http1-connection.js';
import type { RefusalAnswer, UpgradeListener } from '../../src/listeners/http1-input.js';
import { createUpgradeListener } from '../../src/listeners/websocket.js';
import type { AuditEntry, AuditLog } from '../../src/observe/audit.js';
import { LineBuffer } from '../../src/observe/json-line.js';
import { logTo } from '../../src/observe/log.js';
import type { Services } from '../../src/pipeline/services.js';
import { StreamRevalidator } from '../../src/pipeline/streams.js';
import { applyDirectory } from '../../src/server/reload/directory-file.js';
import { readDirectory } from '../../src/server/reload/read-directory.js';
import { createRuntime } from '../../src/server/runtime.js';
import { shadowDifferencesOf, shadowReport } from '../../src/server/shadow.js';
import { type OpenedStore, openStore, createStoreReadiness } from '../../src/server/stores/open-store.js';
import type { ForwardRequest } from '../../src/upstream/forward.js';
import type { Upgrade } from '../../src/upstream/upgrade.js';
import { directory, shortcuts } from './fixture.js';
import type { GrpcReply } from './grpc.js';
import { inProcessHttp2 } from './in-process-http2.js';
import { bodyOf, jsonOf, methodOf, type Reply, type Sent } from './http.js';
import { temporaryFolder, writeConfig } from './latchkey.js';
import { rememberSecretsOf } from './secrets.js';
import { readAnswers } from './strict.mjs';

/** The outcome of a request. */
export interface Handled extends Reply {
  /** Audit log entries, in order. */
  readonly audit: readonly AuditEntry[];
  /** Log lines: the request record, and faults. */
  readonly log: readonly Record<string, unknown>[];
  /** The request to the upstream; undefined if none would have been sent. */
  readonly forwarded: { readonly upstream: string; readonly target: string; readonly fields: Record<string, string> } | undefined; // prettier-ignore
}

/** The request-serving part of Latchkey, run in this process without sockets. */
export interface InProcess extends ReturnType<typeof shortcuts> {
  readonly loaded: LoadedConfig;
  readonly opened: OpenedStore;
  readonly request: (target: string, sent?: Sent) => Promise<Handled>;
  /** The admin port's report on the shadow policy. */
  readonly shadow: () => ReturnType<typeof shadowReport>;
  /** Queries the decision port; an HTTP check is an ordinary request. */
  readonly decide: (target: string, sent?: Sent) => Promise<Handled>;
  /** Sends a request that, if it asks for a WebSocket, is a handshake; an allowed one is a 200. */
  readonly handshake: (target: string, sent?: Sent) => Promise<Handled>;
  /** Sends a request over HTTP/2. */
  readonly requestByHttp2: (target: string, sent?: Sent) => Promise<Handled>;
  /** The connection of `requestByHttp2`; undefined before the first request. */
  readonly http2Session: () => Promise<ClientHttp2Session> | undefined;
  /** Queries the gRPC port. */
  readonly decideByGrpc: (message: Buffer) => Promise<GrpcReply & Pick<Handled, 'audit' | 'log'>>;
}

/** Parts that a test may replace before a request is served. */
export interface Replaced {
  readonly opened?: (opened: OpenedStore) => Partial<OpenedStore>;
  readonly services?: (services: Services) => Partial<Services>;
}

type Test = { teardown: (fn: () => void | Promise<void>) => void };

/**
 * Builds the services of a configuration with the fixture directory. No upstream is contacted: each
 * answers 200.
 */
export async function startInProcess(t: Test, config: object = {}, replaced: Replaced = {}): Promise<InProcess> {
  const folder = temporaryFolder(t);
  const whole = { upstream: 'http://127.0.0.1:1', log: { requests: 'all' }, ...config };
  const loaded = loadConfigToServe(writeConfig(folder, whole, await directory()), {});
  const output = new Output();
  const found = await openStore(loaded);
  const opened = {
    ...found,
    audit: output.audit,
    passwords: new Passwords(QUICK_HASHER, 2),
    ...replaced.opened?.(found),
  };
  const log = logTo(output.destination, logSettings(loaded));
  await applyDirectory(loaded, await readDirectory(loaded), opened, log);
  const casualties = shadowDifferencesOf(loaded, null);
  const readiness = createStoreReadiness(opened.store.maintenance, 0);
  const isReady = async () => (await readiness()).isReady;
  const runtime = createRuntime(loaded, opened, log, undefined, undefined, () => PAGE, undefined, casualties, isReady);
  const services = { ...runtime.services, forward: output.forward, upgrade: output.upgrade };
  const streams = new StreamRevalidator(() => runtime.streamRecheck, runtime.recheck, () => undefined);
  const serving = {
    get services(): Services {
      return { ...services, ...replaced.services?.(services) };
    },
    isDraining: false,
  };
  const listener = createRequestListener(serving, streams);
  const upgrades = createUpgradeListener(serving, streams);
  const decisions = createDecisionListener(serving);
  const answerOf: RefusalAnswer = (refusal, req) => refusalOutside(serving.services, refusal, req);
  const overHttp2 = inProcessHttp2(listener);
  t.teardown(async () => {
    (await overHttp2.session)?.destroy();
    streams.close();
    await runtime.close();
    await found.close();
  });
  const { limits } = loaded.config;
  const check = await interfaceCheck(stringify(whole));
  const request = async (target: string, sent: Sent = {}): Promise<Handled> => {
    output.clear();
    const reply = await exchange({ serve: listener, answerOf, limits }, target, sent);
    check(target, sent, reply);
    rememberSecretsOf(reply.headers, reply.json);
    return { ...reply, audit: output.entries, log: output.lines(), forwarded: output.forwarded };
  };
  const handshake = async (target: string, sent: Sent = {}): Promise<Handled> => {
    output.clear();
    const reply = await exchange({ serve: listener, upgrade: upgrades, answerOf, limits }, target, sent);
    return { ...reply, audit: output.entries, log: output.lines(), forwarded: output.forwarded };
  };
  const requestByHttp2 = async (target: string, sent: Sent = {}): Promise<Handled> => {
    output.clear();
    const reply = await overHttp2.send(target, sent);
    return { ...reply, audit: output.entries, log: output.lines(), forwarded: output.forwarded };
  };
  const shadow = () => shadowReport(loaded, casualties === null ? [] : [casualties.counts()]);
  const decide = async (target: string, sent: Sent = {}): Promise<Handled> => {
    output.clear();
    const reply = await exchange({ serve: decisions, answerOf: denial, limits }, target, sent);
    return { ...reply, audit: output.entries, log: output.lines(), forwarded: undefined };
  };
  const decideByGrpc: InProcess['decideByGrpc'] = async (message) => {
    output.clear();
    const { checkByGrpc } = await import('./in-process-grpc.js');
    const reply = await checkByGrpc(serving.services, limits.head_size, message);
    return { ...reply, audit: output.entries, log: output.lines() };
  };
  const http2Session = () => overHttp2.session;
  return { ...shortcuts(request), request, handshake, requestByHttp2, http2Session, decide, decideByGrpc, loaded, opened, shadow };
} // prettier-ignore

/** A digest in place of the expensive hash for new logins; the fixture's own hashes are cheap. */
const QUICK_HASHER: Hasher = {
  hash: async (password) => QUICK + createHash('sha256').update(password).digest('base64url'),
  verify: async (phc, password) =>
    phc.startsWith(QUICK)
      ? phc === (await QUICK_HASHER.hash(password, WEAK))
      : localHasher.verify(phc, password),
};
const QUICK = '$argon2id$v=19$m=47104,t=1,p=1$';
const WEAK = { memoryCost: 8, timeCost: 1 };

/** Stands in for the page that a build produces. */
const PAGE: PageFiles = {
  html: { type: 'text/html; charset=utf-8', bytes: Buffer.from('<title>Page</title>'), immutable: false },
  assets: new Map([
    ['app.js', { type: 'text/javascript; charset=utf-8', bytes: Buffer.from('"use strict";'), immutable: true }],
  ]),
}; // prettier-ignore

/** Collects the log, the audit entries and the forwarded request. */
class Output {
  readonly #lines = new LineBuffer();
  entries: AuditEntry[] = [];
  forwarded: Handled['forwarded'];

  readonly audit: AuditLog = {
    record: (...entries) => void this.entries.push(...entries),
    note: (...entries) => void this.entries.push(...entries),
    ensureWritable: () => undefined,
    close: () => undefined,
  };

  readonly destination = {
    beginLine: () => this.#lines.begin(),
    endLine: () => this.#lines.end(),
    write: (line: string) => {
      this.#lines.begin().text(line);
      this.#lines.end();
    },
    flushSoon: () => undefined,
    flush: async () => undefined,
  };

  readonly forward = ({ upstream, target, fields, responseFields, res, owner }: ForwardRequest) => {
    this.#note(upstream.name, target, fields);
    res.writeHead(200, '', [...responseFields, 'Content-Length', '0']);
    res.end();
    owner.forwardEnded({ status: 200, upstreamAddress: undefined, aborted: null, sentAt: performance.now(), firstByteAt: performance.now() });
    return { abort: () => undefined };
  }; // prettier-ignore

  /** The upstream accepts every WebSocket, and the client closes it. */
  readonly upgrade: Upgrade = ({ upstream, target, fields, responseFields, socket, done }) => {
    this.#note(upstream.name, target, fields);
    let head = 'HTTP/1.1 200 Accepted\r\nContent-Length: 0\r\n';
    for (let i = 0; i < responseFields.length; i += 2) head += `${responseFields[i]}: ${responseFields[i + 1]}\r\n`;
    done({ status: 101, upstreamAddress: undefined });
    socket.end(`${head}\r\n`, 'latin1');
    return { abort: () => undefined };
  }; // prettier-ignore

  #note(upstream: string, target: string, fields: readonly string[]): void {
    const joined: Record<string, string> = {};
    for (let i = 0; i < fields.length; i += 2) {
      const name = String(fields[i]).toLowerCase();
      const value = String(fields[i + 1]);
      joined[name] = name === 'cookie' ? joinValues(joined[name] ?? '', value, '; ') : value;
    }
    this.forwarded = { upstream, target, fields: joined };
  }

  clear(): void {
    this.entries = [];
    this.forwarded = undefined;
    this.lines();
  }

  lines(): Record<string, unknown>[] {
    if (this.#lines.length === 0) return [];
    const lines = this.#lines.take().toString().trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  }
}

/**
 * Returns a function that validates an exchange with a built-in endpoint against the OpenAPI
 * document.
 */
async function interfaceCheck(config: string) {
  const { checkFor } = await import('./interface-check.js');
  const check = checkFor(config);
  return (path: string, sent: Sent, { status, headers, text }: Reply) => {
    const { body, type } = bodyOf(sent);
    const requestType = String(sent.headers?.['Content-Type'] ?? type ?? '');
    const method = methodOf(sent);
    const fault = check.faultOf({ method, path, requestType, requestBody: body?.toString(), status, headers, text });
    if (fault !== undefined) throw new Error(`${method} ${path} is not as described: ${fault}`);
  }; // prettier-ignore
}

interface Port {
  readonly serve: Serve;
  readonly upgrade?: UpgradeListener | null;
  readonly answerOf?: RefusalAnswer;
  readonly limits: HeadLimits;
}

/** Sends a request to a port over a connection without a socket, and reads the response. */
function exchange({ serve, upgrade = null, answerOf = refusalReply, limits }: Port, target: string, sent: Sent): Promise<Reply> {
  const { body, type } = bodyOf(sent);
  const headers = { Host: 'api.example', ...sent.headers };
  const fields = Object.entries(headers).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
  if (type !== undefined && !fields.some(([name]) => name === 'Content-Type')) fields.push(['Content-Type', type]);
  const isChunked = fields.some(([name]) => name?.toLowerCase() === 'transfer-encoding');
  if (body !== undefined && !isChunked) fields.push(['Content-Length', String(Buffer.byteLength(body))]);
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const method = methodOf(sent);
  return new Promise((resolve, reject) => {
    const written: Buffer[] = [];
    const connection = new Duplex({
      read: () => undefined,
      write: (chunk: Buffer, _encoding, done) => {
        written.push(chunk);
        done();
        const { answers, fault } = readAnswers(Buffer.concat(written), [method], false);
        if (fault !== undefined) reject(new Error(`not an answer: ${fault}`));
        else if (answers[0] !== undefined) resolve(replyOf(answers[0]));
      },
      // The client closes its side at this point.
      final: (done) => {
        connection.push(null);
        done();
      },
    });
    connection.on('close', () => reject(new Error('the connection was broken off')));
    const idle = { setTimeout: () => connection, setNoDelay: () => connection, setKeepAlive: () => connection };
    const socket = Object.assign(connection, { ...idle, remoteAddress: '127.0.0.1', destroySoon: () => connection.end() });
    const settings = { limits: { ...DEFAULT_LIMITS, ...parserLimits(limits) }, keepAliveHint: 'timeout=5', serve, upgrade, http2: null, answerOf, unreadable: () => undefined, fault: reject };
    const owner = { isEnding: false, left: () => undefined, closed: () => undefined };
    void new Http1Connection(socket as unknown as Socket, settings, owner);
    connection.push(Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines}\r\n`, 'latin1'));
    if (body !== undefined && isChunked)
      connection.push(body.length === 0 ? '0\r\n\r\n' : `${body.length.toString(16)}\r\n${body.toString()}\r\n0\r\n\r\n`);
    else if (body !== undefined) connection.push(body);
    // A read with a body of unknown length is served when the body begins.
    else if (isChunked) connection.push('1\r\nx\r\n0\r\n\r\n');
  });
} // prettier-ignore

function replyOf({ status, fields, body }: { status: number; fields: [string, string][]; body: Buffer }): Reply {
  const headers: Record<string, string | string[]> = {};
  for (const [field, value] of fields) {
    const name = field.toLowerCase();
    if (name === 'set-cookie') headers[name] = [headers[name] ?? [], value].flat();
    else headers[name] = value;
  }
  const text = body.toString();
  const json = jsonOf(text);
  return { status, headers, rawHeaders: fields.flat(), text, json };
} // prettier-ignore
