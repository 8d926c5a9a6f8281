import { EventEmitter } from 'node:events';
import type { ResponseFollower } from '../http/exchange.js';

type Listener = Parameters<EventEmitter['on']>[1];

/** An event emitter that most often has no listener, and makes its `EventEmitter` for the first one. */
export class LazyEmitter {
  #emitter: EventEmitter | undefined;

  on(event: string, listener: Listener): this {
    this.#listened().on(event, listener);
    return this;
  }

  once(event: string, listener: Listener): this {
    this.#listened().once(event, listener);
    return this;
  }

  off(event: string, listener: Listener): this {
    this.#emitter?.off(event, listener);
    return this;
  }

  removeAllListeners(event: string): this {
    this.#emitter?.removeAllListeners(event);
    return this;
  }

  /** Returns whether anything listened. */
  emit(event: string, ...args: unknown[]): boolean {
    return this.#emitter?.emit(event, ...args) ?? false;
  }

  #listened(): EventEmitter {
    return (this.#emitter ??= new EventEmitter());
  }
}

/** Base class of responses: what the client does goes to the follower, then to any listeners. */
export abstract class FollowedResponse extends LazyEmitter {
  follower: ResponseFollower | undefined;
  bytesSent = 0;

  drained(): void {
    this.follower?.drained();
    this.emit('drain');
  }

  protected closed(): void {
    this.follower?.clientClosed();
    this.emit('close');
  }
}
