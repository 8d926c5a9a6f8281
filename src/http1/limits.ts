import type { HeadLimits } from '../http/read-head.js';

/** Limits of one message, in bytes unless they say otherwise. What exceeds one is refused. */
export interface MessageLimits extends HeadLimits {
  /** A chunk-size line without its CRLF: the size and its extensions. */
  readonly chunk_line_size: number;
  /** All chunk extensions of one message. */
  readonly extensions_size: number;
  /** All trailer fields of one message with the empty line behind them; `head_fields` counts them. */
  readonly trailer_size: number;
  /** Number of informational answers (1xx) in front of one final answer. */
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
