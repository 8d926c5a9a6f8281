/** Metrics as they are sent. */
export interface MetricsPage {
  readonly type: string;
  readonly body: Buffer;
}

const FRESH_MS = 1_000;

/**
 * Puts the metrics together at most once a second and once at a time, however many ask. All of them are sent the same
 * bytes, so that those who read slowly hold nothing of their own.
 */
export function metricsPage(
  render: () => Promise<{ readonly type: string; readonly text: string }>,
): () => Promise<MetricsPage> {
  let rendering: Promise<MetricsPage> | null = null;
  let page: MetricsPage | undefined;
  let madeAt = -Infinity;
  const make = async (): Promise<MetricsPage> => {
    const { type, text } = await render();
    madeAt = performance.now();
    return (page = { type, body: Buffer.from(text) });
  };
  return async () => {
    if (page !== undefined && performance.now() - madeAt < FRESH_MS) return page;
    return (rendering ??= make().finally(() => (rendering = null)));
  };
}
