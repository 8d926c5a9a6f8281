import { TokenRotations } from '../accounts/token-rotations.js';
import { loadConfig } from '../config/load.js';
import { duration } from '../config/schema/units.js';
import { formatTime } from '../domain/time.js';
import { createdTokenObject } from '../endpoints/token-object.js';
import { recordOperation, unlessRefused } from './record-operation.js';
import { WrongUsage } from './terminal/failure.js';
import type { ReportOptions } from './terminal/options.js';
import { report } from './terminal/output.js';
import { LISTED, lostSecret } from './token.js';
import { withStore } from './with-store.js';

export interface RotateOptions extends ReportOptions {
  readonly overlap?: string;
}

/** Rotates a token and prints the new secret. */
export async function rotate(id: string, options: RotateOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  const overlap = readOverlap(options.overlap);
  await withStore(loaded, async (opened) => {
    const rotations = new TokenRotations(opened.store, loaded.config.tokens);
    const operator = { customerId: null, notAfter: null, tokenId: null, refuse: () => undefined };
    const { rotation, secret, customerId, auditEvents } = await unlessRefused(opened, LISTED, async () =>
      rotations.rotate(id, { overlap }, operator, Date.now()),
    );
    const { old, replacement } = rotation;
    recordOperation(opened, auditEvents, lostSecret(replacement.id));
    if (!options.json)
      process.stderr.write(
        `token ${replacement.id} replaces ${old.id}, which expires at ${formatTime(old.expiresAt ?? 0)}; the new secret is shown only once:\n`,
      );
    const object = createdTokenObject(replacement, customerId, secret);
    report(options, object, secret, lostSecret(replacement.id));
  });
}

/** Converts a duration to seconds, as the API expects them. */
function readOverlap(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const read = duration.safeParse(text);
  if (!read.success) throw new WrongUsage(`token rotate: --overlap: ${read.error.issues[0]?.message ?? ''}`);
  return String(Math.ceil(read.data / 1000));
}
