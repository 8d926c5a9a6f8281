import type { ResponseFollower } from '../http/exchange.js';
import { LazyEmitter } from './lazy-emitter.js';

/** Base class of responses: what the client does goes to the follower, then to any listeners. */
export abstract class FollowedResponse extends LazyEmitter {
  follower: ResponseFollower | undefined;

  drained(): void {
    this.follower?.drained();
    this.emit('drain');
  }

  protected closed(): void {
    this.follower?.clientClosed();
    this.emit('close');
  }
}
