// src/listeners/decision/grpc: the entrance for decisions over gRPC.
// May import what listeners may.
// Loaded only where it is configured.

import { type Http2Server, constants, type ServerHttp2Stream } from 'node:http2';
import { createServer, type Socket } from 'node:net';
import {
  type handleUnaryCall,
  logVerbosity,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  setLogVerbosity,
  status,
} from '@grpc/grpc-js';
import { guarded } from '../../../util/async.js';
import type { Serving } from '../../../pipeline/services.js';
import { Http2Connections, MAX_STREAMS, SESSION_MEMORY } from '../../http2-connections.js';
import type { ListenerLimits } from '../../http1-input.js';
import { type PublicServer, TCP_OPTIONS, withConnections } from '../../server.js';
import { handleCheckCall } from './check.js';
import { type CheckRequest, type CheckResponse, readCheckRequest, writeCheckResponse } from './messages.js';

/** Maximum bytes of a message, far above the limit of a head: Envoy treats an excess as an error. */
const MAX_MESSAGE = 1_048_576;

type Check = handleUnaryCall<CheckRequest, CheckResponse>;

/** `envoy.service.auth.v3.Authorization`; only the server side is used. */
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
 * Creates the server of the gRPC port, with the connection limits of the public port.
 * @param fault called with the exception of a listener; the call is already ended
 */
export function createGrpcServer(
  limits: ListenerLimits,
  serving: Serving,
  fault: (error: unknown) => void,
): PublicServer {
  // The library would log to standard error, header values included.
  setLogVerbosity(logVerbosity.NONE);
  const check: Check = (call, callback) => {
    handleCheckCall(serving.services, limits.head_size, {
      request: call.request,
      peer: { remoteAddress: addressOf(call.getPeer()) },
      get destroyed() {
        return call.cancelled;
      },
      headersSent: false,
      answer: (response) => callback(null, response),
      destroy: () => callback({ code: status.UNAVAILABLE, details: 'no decision' }),
    });
  };
  const library = new Server({
    'grpc.max_receive_message_length': MAX_MESSAGE,
    'grpc.max_concurrent_streams': MAX_STREAMS,
    'grpc.enable_channelz': 0,
    'grpc-node.max_session_memory': SESSION_MEMORY,
  });
  library.addService(AUTHORIZATION, { Check: check });
  const http2 = http2ServerOf(library);
  guardStreams(http2, fault);
  const failed = (error: unknown, socket: { destroy(): unknown }): void => {
    socket.destroy();
    fault(error);
  };
  const connections = new Http2Connections(
    limits,
    (_socket, stream) => limitMessage(stream, limits.head_timeout),
    failed,
    // Every client of this port is a proxy.
    () => true,
    http2,
  );
  const server = createServer(TCP_OPTIONS);
  server.on(
    'connection',
    guarded((socket: Socket) => connections.accept(socket), failed),
  );
  return withConnections(server, connections);
}

/** Returns the address in `1.2.3.4:5678`, the library's form of a peer. */
function addressOf(peer: string): string {
  const colon = peer.lastIndexOf(':');
  return colon < 0 ? '' : peer.slice(0, colon);
}

/**
 * Returns the library's HTTP/2 server.
 * The library keeps it private, but does not limit the time of its connections.
 * @throws Error when this version of the library keeps it elsewhere
 */
function http2ServerOf(library: Server): Http2Server {
  library.createConnectionInjector(ServerCredentials.createInsecure());
  const { http2Servers } = library as unknown as { http2Servers?: ReadonlyMap<Http2Server, unknown> };
  const [server] = http2Servers?.keys() ?? [];
  if (server === undefined) throw new Error('decision.grpc: this version of @grpc/grpc-js is not supported');
  return server;
}

/**
 * Guards the stream listeners: the library starts calls in an event, where an error would end the process.
 */
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

/** Ends a call whose message does not arrive completely in time. */
function limitMessage(stream: ServerHttp2Stream, timeout: number): void {
  const timer = setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), timeout).unref();
  const clear = (): void => clearTimeout(timer);
  stream.once('end', clear).once('close', clear);
}
