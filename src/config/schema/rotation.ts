import { z } from 'zod';
import { duration } from './units.js';

export const rotationSchema = z.strictObject({
  overlap: duration
    .prefault('24h')
    .describe(
      'How long a rotated token is still accepted beside its replacement, unless the request sets another overlap',
    ),
  max_overlap: duration.prefault('7d').describe('Longest overlap that a request may ask for'),
});
