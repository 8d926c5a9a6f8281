import type { Socket } from 'node:net';
import { type buildConnector, Client, type Dispatcher } from 'undici';

/** What a request's handler learns before the request is sent. */
export interface OnConnection {
  connection: Connection | undefined;
}

/** Where a connection leads now. */
interface Place {
  socket: Socket | undefined;
  /** It was reset, or failed otherwise. */
  broken: boolean;
}

/** One connection of a pool. When its socket ends, the next request opens another one. */
export class Connection extends Client {
  readonly #at: Place;

  constructor(origin: URL, options: Client.Options) {
    const at: Place = { socket: undefined, broken: false };
    const connect = options.connect as buildConnector.connector;
    super(origin, {
      ...options,
      connect: (target, callback) => {
        connect(target, (...[error, socket]) => {
          if (error !== null) return callback(error, null);
          at.socket = socket;
          at.broken = false;
          // Before undici's own listener, which may call an answer complete.
          socket.once('error', () => {
            if (at.socket === socket) at.broken = true;
          });
          callback(null, socket);
        });
      },
    });
    this.#at = at;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    (handler as Partial<OnConnection>).connection = this;
    return super.dispatch(options, handler);
  }

  /**
   * Takes nothing more from the upstream until {@link release}. What was read already still comes.
   *
   * undici's own way, a handler that returns false, pauses its parser, and the end of an answer without a length that
   * comes while the parser is paused is an assertion that nobody catches.
   */
  hold(): void {
    if (this.#at.socket !== undefined) this.#at.socket.read = readNothing;
  }

  /** Goes on. @param now false inside of what undici calls, which goes on by itself */
  release(now: boolean): void {
    const { socket } = this.#at;
    if (socket?.read !== readNothing) return;
    Reflect.deleteProperty(socket, 'read');
    if (now) socket.emit('readable');
  }

  /**
   * Whether it failed. What was a whole answer by undici may then be cut short: it takes a reset for the end of an
   * answer without a length.
   */
  get isBroken(): boolean {
    return this.#at.broken;
  }

  /** Uses the connection for no further request, whatever undici thinks of it. */
  retire(): void {
    this.#at.socket?.destroy();
  }
}

function readNothing(): null {
  return null;
}
