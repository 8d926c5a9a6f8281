import { resolve } from 'node:path';
import {
  type ChannelCredentials,
  type ChannelOptions,
  type Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  type ClientWritableStream,
  loadPackageDefinition,
  makeClientConstructor,
  type MetadataValue,
  Metadata,
  type sendUnaryData,
  Server,
  type ServerCredentials,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceClientConstructor,
  type ServiceDefinition,
  type ServiceError,
  type StatusObject,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

/** The message that `echo.proto` calls send and receive. */
export interface Message {
  readonly text?: string;
  readonly number?: number;
  readonly data?: Uint8Array;
}

/** The handlers of an `echo.proto` service. */
export interface EchoHandlers {
  readonly Say: (call: ServerUnaryCall<Message, Message>, callback: sendUnaryData<Message>) => void;
  readonly Count: (call: ServerWritableStream<Message, Message>) => void;
  readonly Collect: (call: ServerReadableStream<Message, Message>, callback: sendUnaryData<Message>) => void;
  readonly Chat: (call: ServerDuplexStream<Message, Message>) => void;
}

type Options = { readonly deadline?: number };
type Called = (error: ServiceError | null, message?: Message) => void;

/** A client of `echo.proto`. */
export interface EchoClient {
  Say(message: Message, metadata: Metadata, options: Options, called: Called): ClientReadableStream<Message>;
  Count(message: Message, metadata: Metadata, options?: Options): ClientReadableStream<Message>;
  Collect(metadata: Metadata, options: Options, called: Called): ClientWritableStream<Message>;
  Chat(metadata: Metadata, options?: Options): ClientDuplexStream<Message, Message>;
}

/** The definitions in `echo.proto`. */
export const ECHO = loadSync(resolve('test/helpers/echo.proto'), { keepCase: true });
const { Echo } = (loadPackageDefinition(ECHO) as unknown as { test: { v1: { Echo: ServiceClientConstructor } } })
  .test.v1; // prettier-ignore

type Test = { teardown: (fn: () => void | Promise<void>) => void };

/**
 * Starts a gRPC server.
 * @param more adds other services
 * @returns the server and its port
 */
export async function startGrpc(
  t: Test,
  handlers: EchoHandlers,
  credentials: ServerCredentials,
  more: (server: Server) => void = () => undefined,
  port: number | `unix:${string}` = 0,
): Promise<{ server: Server; port: number }> {
  const server = new Server({ 'grpc.max_receive_message_length': 16 * 1024 * 1024 });
  server.addService(Echo.service, { ...handlers });
  more(server);
  const bound = await new Promise<number>((done, failed) =>
    server.bindAsync(typeof port === 'number' ? `127.0.0.1:${port}` : port, credentials, (error, chosen) => (error === null ? done(chosen) : failed(error))),
  ); // prettier-ignore
  t.teardown(() => server.forceShutdown());
  return { server, port: bound };
}

/**
 * Opens a gRPC client for a URL; it is closed when the test ends.
 * @param prefix goes in front of each path
 */
export function openGrpc(t: Test, url: string, credentials: ChannelCredentials, prefix = '', options: ChannelOptions = {}): EchoClient {
  const methods = Object.entries(Echo.service).map(([name, each]) => [name, { ...each, path: prefix + each.path }]);
  return openService(t, url, credentials, Object.fromEntries(methods), options) as unknown as EchoClient;
} // prettier-ignore

/** Opens a client of a gRPC service. */
export function openService(
  t: Test,
  url: string,
  credentials: ChannelCredentials,
  service: ServiceDefinition,
  options: ChannelOptions = {},
): Client {
  const Made = makeClientConstructor(service, 'Service');
  const client = new Made(new URL(url).host, credentials, {
    'grpc.max_receive_message_length': 16 * 1024 * 1024,
    // Keeps connections separate from those of other tests.
    'grpc.use_local_subchannel_pool': 1,
    ...options,
  });
  t.teardown(() => client.close());
  return client;
}

/** Builds metadata from these values. */
export function metadataOf(values: Readonly<Record<string, MetadataValue>>): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(values)) metadata.set(name, value);
  return metadata;
}

/** The outcome of a call. */
export interface Ended {
  readonly messages: Message[];
  readonly status: StatusObject;
  readonly metadata: Metadata | undefined;
}

/** Collects the messages of a call up to its status. */
export function ended(
  call: ClientReadableStream<Message> | ClientDuplexStream<Message, Message>,
): Promise<Ended> {
  const messages: Message[] = [];
  let metadata: Metadata | undefined;
  return new Promise((done) => {
    call
      .on('data', (message: Message) => messages.push(message))
      .on('metadata', (got: Metadata) => (metadata = got))
      .on('error', () => undefined)
      .on('status', (status: StatusObject) => done({ messages, status, metadata }));
  });
}

/** Resolves to the response to one message, or to the error. */
export function said(
  client: EchoClient,
  message: Message,
  metadata: Metadata,
  options: Options = {},
): Promise<Message | ServiceError> {
  return new Promise((done) =>
    client.Say(message, metadata, options, (error, answer) => done(error ?? answer ?? {})),
  );
}
