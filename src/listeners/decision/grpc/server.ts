import { type Http2Server, constants, type ServerHttp2Stream } from 'node:http2';
import { Server as TcpServer, type Socket } from 'node:net';
import {
  type handleUnaryCall,
  logVerbosity,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  setLogVerbosity,
  status,
} from '@grpc/grpc-js';
import { guarded } from '../../../domain/guarded.js';
import type { Services } from '../../../pipeline/services.js';
import {
  Http2Connections,
  type ListenerLimits,
  MAX_STREAMS,
  SESSION_MEMORY,
} from '../../http2-connections.js';
import { type PublicServer, TCP_OPTIONS } from '../../server.js';
import { MAX_SWEEP_MS } from '../../tls.js';
import { createTellMistake } from '../handler.js';
import { GrpcCheckHandler } from './check.js';
import { type CheckResponse, type Received, readCheckRequest, writeCheckResponse } from './messages.js';

/** Bytes of a message. Envoy takes what is over for an error, so this is far above what a head may have. */
const MAX_MESSAGE = 1_048_576;

type Check = handleUnaryCall<Received, CheckResponse>;

/** `envoy.service.auth.v3.Authorization`; only its server's side is used. */
const AUTHORIZATION: ServiceDefinition = {
  Check: {
    path: '/envoy.service.auth.v3.Authorization/Check',
    requestStream: false,
    responseStream: false,
    requestSerialize: () => Buffer.alloc(0),
    requestDeserialize: readCheckRequest,
    responseSerialize: writeCheckResponse,
    responseDeserialize: (bytes: Buffer) => bytes,
  },
};

/**
 * Makes the server of the gRPC port, with the limits of connections that the public port has.
 *
 * @param services as they are now; a check ends with those that it began with
 * @param fault called with an error that a listener threw; the call is ended by then
 */
export function createGrpcServer(
  limits: ListenerLimits,
  services: () => Services,
  fault: (error: unknown) => void,
): PublicServer {
  // It writes to standard error, where values of fields would show.
  setLogVerbosity(logVerbosity.NONE);
  const tellMistake = createTellMistake();
  const check: Check = (call, callback) => {
    new GrpcCheckHandler(services(), tellMistake, limits.head_size, {
      received: call.request,
      peer: { remoteAddress: addressOf(call.getPeer()) },
      isCancelled: () => call.cancelled,
      answer: (response) => callback(null, response),
      fail: () => callback({ code: status.UNAVAILABLE, details: 'no decision' }),
    }).handle();
  };
  const library = new Server({
    'grpc.max_receive_message_length': MAX_MESSAGE,
    'grpc.max_concurrent_streams': MAX_STREAMS,
    'grpc.enable_channelz': 0,
    'grpc-node.max_session_memory': SESSION_MEMORY,
  });
  library.addService(AUTHORIZATION, { Check: check });
  return new GrpcServer(limits, http2ServerOf(library), fault);
}

/** The address in `1.2.3.4:5678`, as the library tells a peer. */
function addressOf(peer: string): string {
  const colon = peer.lastIndexOf(':');
  return colon < 0 ? '' : peer.slice(0, colon);
}

/**
 * What speaks HTTP/2 for the library. The library itself does not limit how long a connection takes, and so does not show it.
 *
 * @throws Error when the version of the library keeps it elsewhere
 */
function http2ServerOf(library: Server): Http2Server {
  library.createConnectionInjector(ServerCredentials.createInsecure());
  const { http2Servers } = library as unknown as { http2Servers?: ReadonlyMap<Http2Server, unknown> };
  const [server] = http2Servers?.keys() ?? [];
  if (server === undefined) throw new Error('decision.grpc: this version of @grpc/grpc-js is not supported');
  return server;
}

class GrpcServer extends TcpServer implements PublicServer {
  /** No call becomes one. */
  readonly tunnels: ReadonlySet<never> = new Set();
  readonly #connections: Http2Connections;
  readonly #sweep: NodeJS.Timeout;

  constructor(limits: ListenerLimits, http2: Http2Server, fault: (error: unknown) => void) {
    super(TCP_OPTIONS);
    guardStreams(http2, fault);
    const failed = (error: unknown, socket: { destroy(): unknown }): void => {
      socket.destroy();
      fault(error);
    };
    this.#connections = new Http2Connections(
      limits,
      (_socket, stream) => limitMessage(stream, limits.head_timeout),
      failed,
      http2,
    );
    this.#sweep = setInterval(
      () => this.#connections.sweep(),
      Math.min(MAX_SWEEP_MS, limits.head_timeout / 2),
    ).unref();
    this.on(
      'connection',
      guarded((socket: Socket) => this.#connections.accept(socket), failed),
    );
  }

  /** Stops accepting, and tells what is open of the end. */
  override close(callback?: (error?: Error) => void): this {
    this.#connections.drain();
    return super.close((error) => {
      clearInterval(this.#sweep);
      callback?.(error);
    });
  }

  closeIdleConnections(): void {
    this.#connections.closeIdle();
  }

  closeAllConnections(): void {
    this.#connections.destroyAll();
  }
}

/** The library begins a call in an event of HTTP/2, where an error would end the process. */
function guardStreams(http2: Http2Server, fault: (error: unknown) => void): void {
  const listeners = http2.listeners('stream') as ((...args: unknown[]) => void)[];
  http2.removeAllListeners('stream');
  for (const listener of listeners)
    http2.on(
      'stream',
      guarded(listener, (error, stream) => {
        (stream as ServerHttp2Stream).destroy();
        fault(error);
      }),
    );
}

/** Ends a call whose message does not come whole in time. */
function limitMessage(stream: ServerHttp2Stream, timeout: number): void {
  const timer = setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), timeout).unref();
  const clear = (): void => clearTimeout(timer);
  stream.once('end', clear).once('close', clear);
}
