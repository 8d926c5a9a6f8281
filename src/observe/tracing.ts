import type { Tracing, TracingEvents, TracingSettings } from './tracing/trace.js';

export { currentTrace, type RequestTrace, type Tracing } from './tracing/trace.js';

/** Starts to write spans. What that needs is loaded here, so that nobody else pays for it. */
export async function openTracing(settings: TracingSettings, events: TracingEvents): Promise<Tracing> {
  const { createTracing } = await import('./tracing/spans.js');
  return createTracing(settings, events);
}
