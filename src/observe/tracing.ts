import type { Tracing, TracingEvents, TracingSettings } from './tracing/trace.js';

export { currentTrace, type RequestTrace, type Tracing } from './tracing/trace.js';

/**
 * Starts exporting spans. The SDK is loaded only here, so that processes without tracing do not pay for it.
 */
export async function openTracing(settings: TracingSettings, events: TracingEvents): Promise<Tracing> {
  const { createTracing } = await import('./tracing/spans.js');
  return createTracing(settings, events);
}
