import type { HeadLimits } from '../http/read-head.js';

/** Limits of one message, in bytes unless noted otherwise. Exceeding one is a fault. */
export interface MessageLimits extends HeadLimits {
  /** A chunk-size line with its extensions, without CRLF. */
  readonly chunk_line_size: number;
  /** All chunk extensions of a message. */
  readonly extensions_size: number;
  /**
   * All trailers of a message with the final empty line; their number is limited by `head_fields`.
   */
  readonly trailer_size: number;
  /** Number of informational responses (1xx) before a final response. */
  readonly informational: number;
}

export const DEFAULT_LIMITS: MessageLimits = {
  head_size: 16 * 1024,
  head_fields: 100,
  target_size: 8 * 1024,
  chunk_line_size: 128,
  extensions_size: 4 * 1024,
  trailer_size: 8 * 1024,
  informational: 50,
};
