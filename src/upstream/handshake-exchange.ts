import type { Socket } from 'node:net';
import { DATA, END, HEAD, INFORMATIONAL, NEED_DATA } from '../http1/events.js';
import { ResponseParser } from '../http1/response-parser.js';
import { requestHead, type RequestStart, UNFRAMED } from '../http1/write.js';
import { responseLimits } from './connection.js';
import { faultOfParser, UpstreamFault } from './faults.js';

/** Bytes of the body of a response that does not open the WebSocket. */
const MAX_BODY = 65_536;
const SWITCHING_PROTOCOLS = 101;

/** A response that does not switch protocols. */
export interface RefusedHandshake {
  readonly status: number;
  readonly reason: string;
  /** As received, flat. */
  readonly fields: readonly string[];
  readonly body: Buffer;
  /** Whether that is all of the body. */
  readonly isWhole: boolean;
}

/** Receives the response to a handshake: one call. */
export interface HandshakeOwner {
  /**
   * Called for a 101. The connection then has no listeners.
   *
   * @param fields as received, flat
   * @param rest bytes after the head
   */
  readonly switched: (fields: readonly string[], rest: Buffer) => void;
  readonly refused: (response: RefusedHandshake) => void;
  readonly failed: (error: Error) => void;
}

/** A WebSocket handshake and its response, on an open connection of its own. */
export class HandshakeExchange {
  readonly #socket: Socket;
  readonly #owner: HandshakeOwner;
  readonly #parser: ResponseParser;
  readonly #body: Buffer[] = [];
  #left = MAX_BODY;
  #hasHead = false;
  #isOver = false;

  /** @param maxHead bytes of the head of the response */
  constructor(socket: Socket, maxHead: number, owner: HandshakeOwner) {
    this.#socket = socket;
    this.#owner = owner;
    this.#parser = new ResponseParser(responseLimits(maxHead));
  }

  /**
   * Sends the handshake.
   *
   * @throws UnwritableMessage for a target, name or value that cannot be sent
   */
  send(start: Omit<RequestStart, 'method' | 'connection'>, fields: readonly string[]): void {
    const head = requestHead(
      { ...start, method: 'GET', connection: 'Upgrade' },
      ['Upgrade', 'websocket', ...fields],
      UNFRAMED,
    );
    this.#parser.expect('GET', true);
    this.#socket
      .on('data', this.#onData)
      .on('end', this.#onEnd)
      .on('error', this.fail)
      .on('close', this.#onClose);
    this.#socket.write(head, 'latin1');
  }

  /** Ends the wait for the response, or for the rest of its body. */
  readonly fail = (error: Error): void => {
    if (this.#isOver) return;
    if (this.#hasHead) this.#refuse(false);
    else {
      this.#end();
      this.#owner.failed(error);
    }
  };

  readonly #onData = (chunk: Buffer): void => {
    this.#parser.feed(chunk);
    this.#read();
  };

  readonly #onEnd = (): void => {
    this.#parser.finish();
    this.#read();
  };

  readonly #onClose = (): void => {
    this.fail(new UpstreamFault('UND_ERR_SOCKET', 'the upstream closed the connection'));
  };

  #read(): void {
    while (!this.#isOver && this.#readNext());
  }

  /** Processes the next event; returns whether there may be more. */
  #readNext(): boolean {
    const parser = this.#parser;
    switch (parser.next()) {
      case NEED_DATA:
        return false;
      case INFORMATIONAL:
        return true;
      case HEAD:
        if (parser.status === SWITCHING_PROTOCOLS) {
          this.#end();
          this.#owner.switched(parser.fields, parser.takeRest());
        } else this.#hasHead = true;
        return true;
      case DATA:
        this.#body.push(parser.data.subarray(0, this.#left));
        this.#left -= parser.data.length;
        if (this.#left < 0) this.#refuse(false);
        return true;
      case END:
        this.#refuse(true);
        return true;
      default:
        this.fail(faultOfParser(parser));
        return false;
    }
  }

  #refuse(isWhole: boolean): void {
    const { status, reason, fields } = this.#parser;
    this.#end();
    this.#owner.refused({ status, reason, fields, body: Buffer.concat(this.#body), isWhole });
  }

  #end(): void {
    this.#isOver = true;
    this.#socket
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('error', this.fail)
      .off('close', this.#onClose);
  }
}
