import type { ResponseFollower } from '../http/exchange.js';
import { LazyEmitter } from './lazy-emitter.js';

/** Base class of responses: what the client does goes to the follower, then to any listeners. */
export abstract class FollowedResponse extends LazyEmitter {
  follower: ResponseFollower | undefined;

  /** Called when the client has read the buffered data. */
  drained(): void {
    this.follower?.drained();
    this.emit('drain');
  }

  /** Called when the response was sent completely, or the client disconnected. */
  protected closed(): void {
    this.follower?.clientClosed();
    this.emit('close');
  }
}
